"""Make snapshots from the store: read what changed, keep the rest."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

from armada.filters.trouble import RECENT_S, Copies, copies, trouble
from armada.foundation.sanitize import sanitize_line
from armada.records.launch_price import tariff_of
from armada.store.queries import run_detail, run_list
from armada.store.queries.run_list import Values
from armada.store.queries.uses import Past, read_past
from armada.tui.reachability import Reachability
from armada.tui.snapshot import Counts, Kept, RunDetail, RunRow, Snapshot

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from armada.costs.tariff import Tariff
    from armada.paths import HomePaths
    from armada.store.database import Database
    from armada.store.hosts import HostRecord
    from armada.store.run_sync import RunSync
    from armada.store.runs import Run
    from armada.tui.reachability import Silence

NOTHING_KEPT = Kept(None, None, 0, 0)
MOST_FIRST = 1000
"""If more runs belong to the top of the first screen, all are read at once, after the first paint."""


class _Known(NamedTuple):
    """The input of a row, to detect whether the row must be rebuilt."""

    values: Values
    kept: Kept
    here: Copies
    row: RunRow


class RunReader:
    """Caches its rows; each reading asks the store only for runs that changed since the last one."""

    def __init__(self, database: Database, home: HomePaths | None = None) -> None:
        self._database = database
        self._home = home
        self._configured: frozenset[str] = frozenset()
        self._launched: dict[str, Tariff | None] = {}
        self._known: dict[str, _Known] = {}
        self._seen = (-1, -1)
        self._tariffs: Mapping[str, Tariff] = {}
        self._places: dict[str, int] = {}
        self._rows: list[RunRow] = []
        self._states: dict[str, set[str]] = {"running": set(), "waiting": set(), "troubled": set()}
        self._calming: dict[str, float] = {}
        self._reachability = Reachability()
        self.rows: tuple[RunRow, ...] = ()
        """All runs, newest first."""
        self.by_id: dict[str, RunRow] = {}
        self.syncs: dict[str, RunSync] = {}
        self.changed: frozenset[str] | None = None
        """Ids of the rows that `read` replaced; None if rows were added or removed."""

    @property
    def due(self) -> bool:
        """Whether a failure, or a host's answer, has become old since the last reading, although the store did not change."""
        now = time.time()
        return self._reachability.due_at <= now or any(moment <= now for moment in self._calming.values())

    @property
    def silent(self) -> Mapping[str, Silence]:
        """Hosts that do not answer, by name."""
        return self._reachability.silent

    @property
    def counts(self) -> Counts:
        return Counts(*(len(self._states[each]) for each in ("running", "waiting", "troubled")))

    def read(
        self,
        tariffs: Mapping[str, Tariff],
        records: Sequence[HostRecord] | None = None,
        configured: Collection[str] = (),
    ) -> tuple[RunRow, ...]:
        """Return all runs, newest first.

        Args:
            tariffs: What hosts cost, by name.
            records: Those of all hosts; None if they are to be read.
            configured: The hosts of your files; none while they are not read. A run of another one costs what its
                launch says.
        """
        from armada.store import hosts

        now = time.time()
        seen = run_list.revision(self._database)
        whole = seen[1] != self._seen[1]
        rows = run_list.changed_since(self._database, -1 if whole else self._seen[0]) if seen != self._seen else {}
        fresh = set(rows)
        some = None if whole or len(rows) > len(self._known) // 2 else fresh
        counts, syncs = run_list.count_checkpoints(self._database, some), _syncs(self._database, some)
        kept = {run_id: Kept(*counted) for run_id, counted in counts.items()}
        if syncs:
            self.syncs = {**({} if whole else self.syncs), **syncs}
        gone = set(self._known) - fresh if whole else set()
        for run_id in gone:
            self._forget(run_id)
        before = len(self._known)
        made = {
            run_id
            for run_id, values in rows.items()
            if self._take(run_id, values, kept.get(run_id, NOTHING_KEPT), tariffs, now)
        }
        is_other = tariffs != self._tariffs or self._configured != frozenset(configured)
        self._configured = frozenset(configured)
        moved = self._reachability.take(hosts.every(self._database) if records is None else records, now)
        made |= self._make_again(tariffs, moved, now, is_priced_anew=is_other)
        self._seen, self._tariffs = seen, tariffs
        self._arrange(made, moved=bool(gone) or len(self._known) != before)
        return self.rows

    def _forget(self, run_id: str) -> None:
        self._reachability.forget(self._known.pop(run_id).row.run)
        self._calming.pop(run_id, None)
        for ids in self._states.values():
            ids.discard(run_id)

    def _take(self, run_id: str, values: Values, kept: Kept, tariffs: Mapping[str, Tariff], now: float) -> bool:
        """Rebuild a run's row if its input changed; return whether it did."""
        here = copies(self.syncs.get(run_id), kept.damaged)
        known = self._known.get(run_id)
        if known is not None and (known.values, known.kept, known.here) == (values, kept, here):
            return False
        self._make(run_id, values, kept, here, tariffs, now)
        return True

    def _make_again(
        self, tariffs: Mapping[str, Tariff], hosts: set[str], now: float, *, is_priced_anew: bool
    ) -> set[str]:
        """Rebuild rows that are outdated although their runs did not change: another price, an old failure, a silent host."""
        stale = {run_id for run_id, moment in self._calming.items() if moment <= now}
        if hosts:
            stale |= {
                run_id
                for run_id, known in self._known.items()
                if known.row.run.host in hosts and not known.row.run.ended
            }
        if is_priced_anew:
            stale |= {
                run_id
                for run_id, known in self._known.items()
                if known.row.tariff != self._tariff(known.row.run, tariffs)
            }
        for run_id in stale:
            known = self._known[run_id]
            self._make(run_id, known.values, known.kept, known.here, tariffs, now)
        return stale

    def _make(
        self,
        run_id: str,
        values: Values,
        kept: Kept,
        here: Copies,
        tariffs: Mapping[str, Tariff],
        now: float,
    ) -> None:
        stored = run_list.as_run(values)
        self._reachability.note(stored)
        run = self._reachability.told(stored)
        row, calm_at = _row(self._database, run, kept, here, self._tariff(run, tariffs), now)
        self._known[run_id] = _Known(values, kept, here, row)
        self._calming.pop(run_id, None)
        if run.ended and row.trouble is not None and now < calm_at:
            self._calming[run_id] = calm_at
        for name, so in (
            ("running", _is_running(row)),
            ("waiting", _is_waiting(row)),
            ("troubled", row.trouble is not None),
        ):
            self._states[name].add(run_id) if so else self._states[name].discard(run_id)

    def _tariff(self, run: Run, tariffs: Mapping[str, Tariff]) -> Tariff | None:
        """Return what a run's host costs. The record of its launch is read once, and only if the host was removed."""
        found = tariffs.get(run.host)
        is_removed = bool(self._configured) and run.host not in self._configured
        if found is not None or self._home is None or not is_removed or run.started_at is None:
            return found
        if run.run_id not in self._launched:
            self._launched[run.run_id] = tariff_of(self._home, run, tariffs)
        return self._launched[run.run_id]

    def _arrange(self, made: set[str], *, moved: bool) -> None:
        if moved:
            self.changed = None
            found = sorted((known.row for known in self._known.values()), key=lambda row: -row.run.created_at)
            self._rows, self._places = found, {row.run.run_id: place for place, row in enumerate(found)}
            self.by_id = {row.run.run_id: row for row in found}
        else:
            self.changed = frozenset(made)
            if made:
                self.by_id = self.by_id.copy()  # the former index belongs to a snapshot that was published
            for run_id in made:
                self._rows[self._places[run_id]] = self.by_id[run_id] = self._known[run_id].row
        if moved or made:
            self.rows = tuple(self._rows)


def _is_running(row: RunRow) -> bool:
    return row.run.state == "running"


def _is_waiting(row: RunRow) -> bool:
    return not row.run.ended and row.run.state not in ("running", "unknown")


def _row(
    database: Database, run: Run, kept: Kept, here: Copies, tariff: Tariff | None, now: float
) -> tuple[RunRow, float]:
    """Return the row of a run, and when a failure becomes old, unix seconds."""
    calm_at = (run.ended_at or run.created_at) + RECENT_S
    why = trouble(run, here, urgent=now < calm_at)
    past = read_past(database, run) if tariff is not None else Past()
    return RunRow(run, sanitize_line(run.name, 120), sanitize_line(run.host, 80), kept, why, tariff, past), calm_at


def read_first(database: Database, last: int, pinned: Collection[str] = ()) -> Snapshot | None:
    """Read the runs at the top of the first screen, for the first paint; the others follow.

    Args:
        database: The store.
        last: How many ended runs to read at most, besides those that need you or have not ended.
        pinned: Ids of the runs above all others; some may not exist any more.

    Returns:
        A snapshot without a time: it is not the whole store. None if even the top is long.
    """
    now = time.time()
    found = run_list.first_ids(database, last=last, failed_since=now - RECENT_S, most=MOST_FIRST, pinned=pinned)
    if found is None:
        return None
    ids, count = found
    counts, syncs = run_list.count_checkpoints(database, ids), _syncs(database, ids)
    from armada.store import hosts

    rows, reachability = [], Reachability()
    stored = [run_list.as_run(values) for values in run_list.of_ids(database, ids).values()]
    for run in stored:
        reachability.note(run)
    reachability.take(hosts.every(database), now)
    for run in map(reachability.told, stored):
        kept = Kept(*counts[run.run_id]) if run.run_id in counts else NOTHING_KEPT
        rows.append(_row(database, run, kept, copies(syncs.get(run.run_id), kept.damaged), None, now)[0])
    rows.sort(key=lambda row: -row.run.created_at)
    summed = Counts(
        sum(map(_is_running, rows)), sum(map(_is_waiting, rows)), sum(row.trouble is not None for row in rows)
    )
    return Snapshot(0.0, tuple(rows), {row.run.run_id: row for row in rows}, summed, first_of=count)


def _syncs(database: Database, run_ids: set[str] | None) -> dict[str, RunSync]:
    from armada.store import run_sync

    if run_ids is None:
        return run_sync.every(database)
    return {run_id: run_sync.find(database, run_id) for run_id in run_ids}


def read_detail(database: Database, run_id: str) -> RunDetail | None:
    """Return everything about one run, or None if it does not exist."""
    from armada.monitor.step_times import WINDOW
    from armada.store import checkpoints, metrics, transitions
    from armada.store.queries.step_times import read_step_times

    spec = run_detail.find_spec(database, run_id)
    if spec is None:
        return None
    return RunDetail(
        run_id,
        spec,
        tuple(transitions.of_run(database, run_id)),
        tuple(checkpoints.of_run(database, run_id)),
        tuple(run_detail.newest_events(database, run_id)),
        tuple(metrics.names(database, run_id)),
        read_step_times(database, run_id, WINDOW),
        tuple(metrics.left_out(database, run_id)),
    )
