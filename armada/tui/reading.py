"""Make snapshots from the store: read what changed, keep the rest."""

from __future__ import annotations

import dataclasses
import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from armada.foundation.sanitize import sanitize_line
from armada.store.runs import DERIVED, LOSS_NOT_FINITE, Run
from armada.tui.snapshot import RECENT_S, Counts, Kept, RunDetail, RunRow

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Mapping

    from armada.store.database import Database
    from armada.store.run_sync import RunSync

SPARK_POINTS = 10
OUTLINE = 500
_FINITE = "CASE WHEN abs(value) <= 1.7976931348623157e308 THEN value END"
NOTHING_KEPT = Kept(None, None, 0, 0)

_FIELDS = [name for name in Run.__slots__ if name not in DERIVED]
_COLUMNS = ", ".join([*(f"r.{name}" for name in _FIELDS), LOSS_NOT_FINITE])
_GPUS = _FIELDS.index("gpus")


@dataclass(slots=True)
class _Known:
    """What a row was made from, to see whether it must be made again."""

    values: tuple[Any, ...]
    kept: Kept
    failing: str | None
    row: RunRow


class RunReader:
    """Caches its rows; each reading asks the store only for runs that changed since the last one."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._known: dict[str, _Known] = {}
        self._seen = (-1, -1)
        self._prices: Mapping[str, float | None] = {}
        self._places: dict[str, int] = {}
        self._rows: list[RunRow] = []
        self._states: dict[str, set[str]] = {"running": set(), "waiting": set(), "troubled": set()}
        self._calming: dict[str, float] = {}
        self.rows: tuple[RunRow, ...] = ()
        """All runs, newest first."""
        self.index: dict[str, RunRow] = {}
        self.syncs: dict[str, RunSync] = {}
        self.changed: frozenset[str] | None = None
        """Ids of the rows that `read` replaced; None if rows were added or removed."""

    @property
    def due(self) -> bool:
        """Whether a failure has become old since the last reading, although the store did not change."""
        return any(moment <= time.time() for moment in self._calming.values())

    @property
    def counts(self) -> Counts:
        return Counts(*(len(self._states[each]) for each in ("running", "waiting", "troubled")))

    def read(self, prices: Mapping[str, float | None]) -> tuple[RunRow, ...]:
        """All runs, newest first.

        Args:
            prices: Per hour, by host.
        """
        now = time.time()
        seen = tuple(self._database.connection.execute("SELECT number, deletions FROM revision").fetchone())
        whole = seen[1] != self._seen[1]
        rows = self._newer(-1 if whole else self._seen[0]) if seen != self._seen else []
        fresh = {row["run_id"] for row in rows}
        some = None if whole or len(rows) > len(self._known) // 2 else fresh
        kept, syncs = self._kept(some), _syncs(self._database, some)
        if syncs:
            self.syncs = {**({} if whole else self.syncs), **syncs}
        gone = set(self._known) - fresh if whole else set()
        for run_id in gone:
            self._forget(run_id)
        before = len(self._known)
        made = {raw["run_id"] for raw in rows if self._take(raw, kept.get(raw["run_id"], NOTHING_KEPT), prices, now)}
        made |= self._make_again(prices, now)
        self._seen, self._prices = seen, prices
        self._arrange(made, moved=bool(gone) or len(self._known) != before)
        return self.rows

    def _newer(self, revision: int) -> list[sqlite3.Row]:
        query = f"SELECT {_COLUMNS} FROM runs r WHERE r.revision > ?"  # noqa: S608  # column names are the dataclass's own
        return self._database.connection.execute(query, (revision,)).fetchall()

    def _kept(self, run_ids: set[str] | None) -> dict[str, Kept]:
        query = """SELECT run_id, max(CASE WHEN verified_at IS NOT NULL AND trouble IS NULL THEN step END),
                          max(CASE WHEN trouble IS NULL THEN verified_at END),
                          count(CASE WHEN trouble IS NULL THEN verified_at END),
                          sum(on_host AND (verified_at IS NULL OR trouble IS NOT NULL)),
                          count(CASE WHEN trouble IS NOT NULL THEN verified_at END) FROM checkpoints"""
        rows = _of_ids(self._database, query, run_ids, after=" GROUP BY run_id")
        return {row[0]: Kept(*tuple(row)[1:]) for row in rows}

    def _forget(self, run_id: str) -> None:
        del self._known[run_id]
        self._calming.pop(run_id, None)
        for ids in self._states.values():
            ids.discard(run_id)

    def _take(self, raw: sqlite3.Row, kept: Kept, prices: Mapping[str, float | None], now: float) -> bool:
        """Make a run's row if it is not the one there was."""
        values = tuple(raw)
        run_id = raw["run_id"]
        sync = self.syncs.get(run_id)
        failing = sync.reason or "no reason recorded" if sync is not None and sync.failing_since is not None else None
        known = self._known.get(run_id)
        if known is not None and (known.values, known.kept, known.failing) == (values, kept, failing):
            return False
        self._make(run_id, values, kept, failing, prices, now)
        return True

    def _make_again(self, prices: Mapping[str, float | None], now: float) -> set[str]:
        """Rows that are no longer right though nobody wrote: another price, a failure that is history now."""
        stale = {run_id for run_id, moment in self._calming.items() if moment <= now}
        if prices != self._prices:
            stale |= {
                run_id for run_id, known in self._known.items() if known.row.price != prices.get(known.row.run.host)
            }
        for run_id in stale:
            known = self._known[run_id]
            self._make(run_id, known.values, known.kept, known.failing, prices, now)
        return stale

    def _make(
        self,
        run_id: str,
        values: tuple[Any, ...],
        kept: Kept,
        failing: str | None,
        prices: Mapping[str, float | None],
        now: float,
    ) -> None:
        fields = [*values[:-1]]
        fields[_GPUS] = tuple(json.loads(values[_GPUS]))
        run = Run(*fields)
        if values[-1] is not None:
            run = dataclasses.replace(run, loss_not_finite=values[-1])
        calm_at = (run.ended_at or run.created_at) + RECENT_S
        words = trouble(run, failing, urgent=now < calm_at)
        row = RunRow(run, sanitize_line(run.name, 120), sanitize_line(run.host, 80), kept, words, prices.get(run.host))
        self._known[run_id] = _Known(values, kept, failing, row)
        self._calming.pop(run_id, None)
        if run.state == "failed" and now < calm_at:
            self._calming[run_id] = calm_at
        for name, so in (
            ("running", run.state == "running"),
            ("waiting", not run.ended and run.state != "running"),
            ("troubled", words is not None),
        ):
            self._states[name].add(run_id) if so else self._states[name].discard(run_id)

    def _arrange(self, made: set[str], *, moved: bool) -> None:
        if moved:
            self.changed = None
            found = sorted((known.row for known in self._known.values()), key=lambda row: -row.run.created_at)
            self._rows, self._places = found, {row.run.run_id: place for place, row in enumerate(found)}
            self.index = {row.run.run_id: row for row in found}
        else:
            self.changed = frozenset(made)
            if made:
                self.index = self.index.copy()  # the one before belongs to a picture that was handed over
            for run_id in made:
                self._rows[self._places[run_id]] = self.index[run_id] = self._known[run_id].row
        if moved or made:
            self.rows = tuple(self._rows)


def _syncs(database: Database, run_ids: set[str] | None) -> dict[str, RunSync]:
    from armada.store import run_sync

    if run_ids is None:
        return run_sync.every(database)
    return {run_id: run_sync.find(database, run_id) for run_id in run_ids}


def _of_ids(database: Database, query: str, run_ids: set[str] | None, *, after: str = "") -> list[sqlite3.Row]:
    if run_ids is None:
        return database.connection.execute(query + after).fetchall()
    found: list[sqlite3.Row] = []
    wanted = sorted(run_ids)
    for start in range(0, len(wanted), 500):  # SQLite takes only so many `?`
        some = wanted[start : start + 500]
        where = f" WHERE run_id IN ({', '.join('?' * len(some))})"
        found += database.connection.execute(query + where + after, some).fetchall()
    return found


def trouble(run: Run, sync_failing: str | None, *, urgent: bool) -> str | None:
    """Say why this run needs you; None if it does not."""
    because = sanitize_line(run.message, 300) if run.message else None
    reason = sanitize_line(run.reason, 60) if run.reason else None
    if not run.ended and run.unreachable_since is not None:
        since = time.strftime("%H:%M", time.localtime(run.unreachable_since))
        return f"unreachable since {since}: {sanitize_line(run.unreachable_why or 'no answer', 200)}"
    if run.state == "failed" and urgent:
        return ": ".join(part for part in (reason, because) if part) or "no reason recorded"
    if run.state == "unknown" or (run.state == "running" and reason):
        return ": ".join(part for part in (reason, because) if part) or "its state is unknown"
    if run.state == "running" and run.loss_not_finite is not None:
        return f"its loss is {run.loss_not_finite}"
    if sync_failing is not None:
        return f"sync fails: {sanitize_line(sync_failing, 300)}"
    return None


def read_spark(database: Database, run_id: str, name: str = "loss") -> tuple[float | None, ...]:
    """Read a curve at a fixed number of places, by index look-ups, however many points it has."""
    connection = database.connection
    found = connection.execute("SELECT id FROM series WHERE run_id = ? AND name = ?", (run_id, name)).fetchone()
    if found is None:
        return ()
    series = found[0]
    (low,) = connection.execute("SELECT min(step) FROM points WHERE series = ?", (series,)).fetchone()
    (high,) = connection.execute("SELECT max(step) FROM points WHERE series = ?", (series,)).fetchone()
    if low is None:
        return ()
    values: dict[int, float | None] = {}
    for place in range(SPARK_POINTS):
        step = low + (high - low) * place // (SPARK_POINTS - 1)
        query = "SELECT step, value FROM points WHERE series = ? AND step >= ? ORDER BY step LIMIT 1"
        there, value = connection.execute(query, (series, step)).fetchone()
        values[there] = value
    return tuple(values.values())


def is_long(first: float, last: float) -> bool:
    """Whether a curve between two steps is so long that an outline is read first."""
    return last - first >= 8 * OUTLINE


def read_curve(
    database: Database, run_id: str, name: str, *, after: float = float("-inf"), outline: bool = False
) -> list[tuple[float, float, float | None]]:
    """A metric's points (step, time, value) behind a step, None for a NaN.

    Args:
        database: The store.
        run_id: Whose.
        name: The metric's.
        after: The last step that is known.
        outline: Where there are very many, the lowest and highest of some hundred spans are enough: SQLite finds them while Python
            does other things; to read half a million would hold up the keys for a second.
    """
    connection = database.connection
    found = connection.execute("SELECT id FROM series WHERE run_id = ? AND name = ?", (run_id, name)).fetchone()
    if found is None:
        return []
    series = found[0]
    (first,) = connection.execute("SELECT min(step) FROM points WHERE series = ?", (series,)).fetchone()
    (last,) = connection.execute("SELECT max(step) FROM points WHERE series = ?", (series,)).fetchone()
    if not outline or first is None or not is_long(first, last):
        query = "SELECT step, time, value FROM points WHERE series = ? AND step > ? ORDER BY step"
        return [tuple(point) for point in connection.execute(query, (series, after))]
    query = f"""SELECT min(step), min(time), min({_FINITE}), max(step), max(time), max({_FINITE}) FROM points
                WHERE series = ? GROUP BY (step - ?) / ? ORDER BY 1"""  # noqa: S608  # a constant
    spans = connection.execute(query, (series, first, (last - first) // OUTLINE + 1))
    points = [point for span in spans for point in (tuple(span)[:3], tuple(span)[3:])]
    newest = connection.execute("SELECT step, time, value FROM points WHERE series = ? AND step = ?", (series, last))
    return [*points, *map(tuple, newest)]  # its own value: a NaN is in no lowest and highest


def read_detail(database: Database, run_id: str) -> RunDetail | None:
    """One run in full, or None where it is gone."""
    from armada.store import checkpoints, metrics, runs

    row = database.connection.execute("SELECT spec FROM runs WHERE run_id = ?", (run_id,)).fetchone()
    if row is None:
        return None
    newest = database.connection.execute(
        "SELECT data FROM events WHERE run_id = ? ORDER BY seq DESC LIMIT 2000", (run_id,)
    )
    events = [json.loads(event["data"]) for event in newest]
    return RunDetail(
        run_id,
        json.loads(row["spec"]),
        tuple(runs.transitions(database, run_id)),
        tuple(checkpoints.of_run(database, run_id)),
        tuple(reversed(events)),
        tuple(metrics.names(database, run_id)),
    )
