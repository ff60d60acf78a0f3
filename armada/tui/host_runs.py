"""The runs of each host, sorted out once for all screens. Of later snapshots, only what changed is sorted again."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from armada.units import counted
from armada.verdicts.idle import stopping_of
from armada.verdicts.states import ENDED

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from armada.tui.snapshot import HostView, RunRow, Snapshot


class RunsOfHost(NamedTuple):
    """The runs of one host, newest first, with what its row says of them."""

    rows: tuple[RunRow, ...] = ()
    active: tuple[RunRow, ...] = ()
    last_ended_at: float | None = None


NO_RUNS = RunsOfHost()
IDLE_S = 600.0
"""A host that is paid for needs you once it is idle for so long."""
MOST_NAMED = 2
"""Of so many runs that need you, each is named."""


def needing(active: Sequence[RunRow]) -> str:
    """Say which of a host's active runs need you, and why in a word: `1 run needs you: arc-7b, stalled`.

    That the host does not answer is not said again.
    """
    found = [(row.name, row.trouble) for row in active if row.trouble is not None and row.trouble.kind != "unreachable"]
    if not found:
        return ""
    named = [f"{name}, {trouble.words.partition(':')[0]}" for name, trouble in found[:MOST_NAMED]]
    more = [f"and {len(found) - MOST_NAMED} more"] if len(found) > MOST_NAMED else []
    return f"{counted(len(found), 'run')} need{'s' if len(found) == 1 else ''} you: {'; '.join([*named, *more])}"


def idle_since(host: HostView, runs: RunsOfHost) -> float | None:
    """Return since when a host that is paid for runs nothing; None if it runs something, or nobody pays for it."""
    record = host.record
    if host.tariff is None or not host.tariff.is_box or runs.active:
        return None
    stopping = stopping_of(record.stopping if record is not None else None)
    if record is None or record.released_at is not None or stopping.state == "gone":
        return None
    last = runs.last_ended_at if runs.last_ended_at is not None else record.first_seen_at
    back = max((until for _, until in stopping.away), default=None)
    return last if back is None else max(back, last or back)


def is_idle_money(host: HostView, runs: RunsOfHost, now: float) -> bool:
    """Whether a host costs something and has run nothing for so long that somebody should know."""
    price = host.tariff.price_at(now) if host.tariff is not None else None
    since = idle_since(host, runs)
    return since is not None and price is not None and bool(price.amount) and now - since >= IDLE_S


class HostRuns:
    """Knows the runs of all hosts in the newest snapshot that it was asked about."""

    def __init__(self) -> None:
        self._of: object = None  # the rows of that snapshot; another snapshot may share them
        self._generation = -1
        self._rows: dict[str, dict[str, RunRow]] = {}
        self._found: dict[str, RunsOfHost] = {}

    def read(self, snapshot: Snapshot) -> Mapping[str, RunsOfHost]:
        """Return the runs of each host that has any, by its name."""
        if snapshot.runs is not self._of:
            follows = snapshot.generation == self._generation + 1
            if not (follows and snapshot.changed is not None and self._replace(snapshot, snapshot.changed)):
                self._sort(snapshot)
            self._of = snapshot.runs
        self._generation = snapshot.generation
        return self._found

    def _sort(self, snapshot: Snapshot) -> None:
        self._rows = {}
        for row in snapshot.runs:
            run = row.run
            self._rows.setdefault(run.host, {})[run.run_id] = row
        self._found = {host: _sum(rows) for host, rows in self._rows.items()}

    def _replace(self, snapshot: Snapshot, changed: frozenset[str]) -> bool:
        """Put new versions of rows into their places; return whether each had one."""
        hosts = set()
        for run_id in changed:
            row = snapshot.by_id.get(run_id)
            rows = self._rows.get(row.run.host, {}) if row is not None else {}
            if row is None or run_id not in rows:
                return False
            rows[run_id] = row
            hosts.add(row.run.host)
        self._found = {**self._found, **{host: _sum(self._rows[host]) for host in hosts}}
        return True


def _sum(rows: Mapping[str, RunRow]) -> RunsOfHost:
    every = tuple(rows.values())
    active = tuple([row for row in every if row.run.state not in ENDED])  # its property takes twice as long
    ends = [at for row in every if (at := row.run.ended_at) is not None]
    return RunsOfHost(every, active, max(ends, default=None))
