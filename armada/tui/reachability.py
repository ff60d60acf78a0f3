"""Whether a host answers: one fact for all screens, by the newest word of its own record and of looks at its runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from armada.store.hosts import HostRecord
    from armada.store.runs import Run

TRUSTED_S = 120.0
"""An answer outdates an earlier failure for so many seconds: a host is asked again after 60 s at the latest, and a mark
that no later success has cleared then holds again. The store keeps the time of the first failure alone."""


class Silence(NamedTuple):
    """Since when a host does not answer, unix seconds, and why, as it was recorded."""

    since: float
    why: str | None


class Reachability:
    """Collects what the store knows of each host: its record, and the marks and observations of its runs.

    A check of the host writes its record alone, and a look at a run, as its log is followed, writes the run alone.
    """

    def __init__(self) -> None:
        self._answered: dict[str, float] = {}
        self._marks: dict[str, dict[str, Silence]] = {}
        self.silent: dict[str, Silence] = {}
        """Hosts that do not answer, by name."""
        self.due_at = float("inf")
        """When an answer no longer outdates a failure, unix seconds."""

    def note(self, run: Run) -> None:
        """Take a run as it is in the store."""
        marks = self._marks.setdefault(run.host, {})
        marks.pop(run.run_id, None)
        if run.unreachable_since is None:
            self._answered[run.host] = max(self._answered.get(run.host, 0.0), run.observed_at or 0.0)
        elif not run.ended:
            marks[run.run_id] = Silence(run.unreachable_since, run.unreachable_why)

    def forget(self, run: Run) -> None:
        """Leave out a run that is gone."""
        self._marks.get(run.host, {}).pop(run.run_id, None)

    def take(self, records: Iterable[HostRecord], now: float) -> set[str]:
        """Take the records of all hosts; return the hosts of which another word holds than before."""
        before, self.silent, self.due_at = self.silent, {}, float("inf")
        by_name = {record.name: record for record in records}
        for name in {*by_name, *self._marks}:
            marks, answered = list(self._marks.get(name, {}).values()), self._answered.get(name, 0.0)
            if (record := by_name.get(name)) is not None:
                answered = max(answered, record.observed_at or 0.0)
                if record.unreachable_since is not None:
                    marks.append(Silence(record.unreachable_since, record.unreachable_why))
            is_trusted = abs(now - answered) < TRUSTED_S  # the clock may have been set back since
            lasting = [mark for mark in marks if not (is_trusted and answered > mark.since)]
            if len(lasting) < len(marks):
                self.due_at = min(self.due_at, answered + TRUSTED_S)
            if lasting:
                newest = max(lasting, key=lambda each: each.since)
                self.silent[name] = Silence(min(each.since for each in lasting), newest.why)
        return {name for name in {*before, *self.silent} if before.get(name) != self.silent.get(name)}

    def told(self, run: Run) -> Run:
        """Return a run with what holds of its host; what has ended needs no host any more."""
        found = self.silent.get(run.host)
        since, why = found if found is not None else (None, None)
        if run.ended or (run.unreachable_since, run.unreachable_why) == (since, why):
            return run
        return run._replace(unreachable_since=since, unreachable_why=why)
