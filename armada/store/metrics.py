"""Metric curves and events, read from a host's files by offset so that each line is stored once."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import statistics
import time
from typing import TYPE_CHECKING

from armada.foundation.sanitize import sanitize_line
from armada.foundation.validation import finite, moment, whole

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable

    from armada.store.database import Database

MOST_SERIES = 500
"""Curves of one run: this limits what a host can write to home's disk."""
MOST_LEFT_OUT = 500
"""Names of further curves that are noted, for the same reason."""
LONGEST_NAME = 100
_RESULT = "summary/"
_NOT_SERIES = frozenset({"kind", "step", "time", "attempt"})


def _point(value: float) -> float | None:
    """Convert a value for storage: infinities are kept, NaN becomes None, because SQLite stores NaN as NULL."""
    return value if isinstance(value, float) and math.isinf(value) else finite(value)


def record_metrics(
    database: Database, run_id: str, lines: Iterable[dict[str, object]], *, offset: int, next_offset: int
) -> bool:
    """Store metric lines that lie between two offsets of the host's file.

    A step that was repeated after a resume replaces the former one. A `reset` removes all points of the curves that it
    names, because their steps were counted; the right ones follow. The newest loss and speed go into the run's row.

    Returns:
        Whether the lines were new; False if another process has already read past `offset`.
    """
    with database.transaction() as connection:
        row = connection.execute("SELECT metrics_offset FROM runs WHERE run_id = ?", (run_id,)).fetchone()
        if row is None or row["metrics_offset"] != offset:
            return False
        newest: dict[str, object] = {"metrics_offset": next_offset}
        series = {
            r["name"]: r["id"] for r in connection.execute("SELECT name, id FROM series WHERE run_id = ?", (run_id,))
        }
        points: dict[int | None, list[tuple[int | None, int, float, float | None]]] = {}
        paces = []
        reached: int | None = None
        further: set[str] = set()
        for line in lines:
            if line.get("kind") == "reset":
                gone = _series_of(line.get("names"), series)
                connection.executemany("DELETE FROM points WHERE series = ?", [(each,) for each in gone])
                for each in gone:
                    points.pop(each, None)
                continue
            step, at, kind = whole(line.get("step")), moment(line.get("time")), str(line.get("kind"))
            if step is None or at is None:
                continue
            for name, value in line.items():
                if name in _NOT_SERIES or not isinstance(value, int | float) or isinstance(value, bool):
                    continue
                key = _series_name(
                    name if kind == "train" or name.startswith(kind) else f"{sanitize_line(kind, 40)}/{name}"
                )
                if key not in series:
                    if len(series) >= MOST_SERIES:
                        further.add(key)
                        continue
                    made = connection.execute("INSERT INTO series (run_id, name) VALUES (?, ?)", (run_id, key))
                    series[key] = made.lastrowid
                points.setdefault(series[key], []).append((series[key], step, at, _point(value)))
            if kind == "train":
                newest |= {name: finite(line[name]) for name in ("loss", "tokens_per_s") if name in line}
                reached = step
                paces.append(finite(line.get("step_time_s")))
        if known := [pace for pace in paces if pace is not None]:
            # A single step may include a save or an evaluation. The middle between two very large numbers is infinite.
            newest["step_time_s"] = finite(statistics.median(known))
        _note_left_out(connection, run_id, further)
        taken = list(itertools.chain.from_iterable(points.values()))
        connection.executemany("INSERT OR REPLACE INTO points VALUES (?, ?, ?, ?)", taken)
        # A run that is lost costs until it was last alive, and after a loss of the store its curves alone may tell that.
        if written := [at for *_, at, _ in taken if at <= time.time()]:
            later = "started_at IS NOT NULL AND ended_at IS NULL AND coalesce(alive_at, started_at) < ?"
            connection.execute(
                f"UPDATE runs SET alive_at = ? WHERE run_id = ? AND {later}",  # noqa: S608
                (max(written), run_id, max(written)),
            )
        names = ", ".join(f"{name} = ?" for name in newest)
        connection.execute(f"UPDATE runs SET {names} WHERE run_id = ?", (*newest.values(), run_id))  # noqa: S608
        if reached is not None:  # a job without heartbeats of its own tells its step by its curves alone
            alone = "run_id = ? AND total_steps IS NULL AND coalesce(step, -1) < ?"
            connection.execute(f"UPDATE runs SET step = ? WHERE {alone}", (reached, run_id, reached))  # noqa: S608
        return True


def _note_left_out(connection: sqlite3.Connection, run_id: str, names: set[str]) -> None:
    if not names:
        return
    known = {name for (name,) in connection.execute("SELECT name FROM left_out WHERE run_id = ?", (run_id,))}
    new = sorted(names - known)[: MOST_LEFT_OUT - len(known)]
    connection.executemany("INSERT INTO left_out VALUES (?, ?)", [(run_id, name) for name in new])


def left_out(database: Database, run_id: str) -> list[str]:
    """Return the names of a run's metrics that are not kept, `MOST_LEFT_OUT` at most; the file of its metrics has them."""
    query = "SELECT name FROM left_out WHERE run_id = ? ORDER BY name"
    return [name for (name,) in database.connection.execute(query, (run_id,))]


def _series_name(name: str) -> str:
    """Return the name of a curve; a long one is cut and ends in a hash of the whole, so that two never become one."""
    if not name.isascii():
        name = name.encode("utf-8", "replace").decode()  # JSON may hold half of a surrogate pair, which SQLite refuses
    if len(name) <= LONGEST_NAME:
        return name
    mark = hashlib.sha256(name.encode()).hexdigest()[:8]
    return f"{name[: LONGEST_NAME - 9]}~{mark}"


def _series_of(names: object, series: dict[str, int]) -> set[int]:
    """The curves that a host names, of those that the run has."""
    if not isinstance(names, list):
        return set()
    known = [_series_name(name) for name in names if isinstance(name, str)]
    return {series[name] for name in known if name in series}


def record_events(
    database: Database, run_id: str, lines: Iterable[dict[str, object]], *, offset: int, next_offset: int
) -> bool:
    """Store numbered events; see `record_metrics`."""
    with database.transaction() as connection:
        row = connection.execute("SELECT events_offset FROM runs WHERE run_id = ?", (run_id,)).fetchone()
        if row is None or row["events_offset"] != offset:
            return False
        rows = [
            (run_id, line["seq"], moment(line.get("time")), sanitize_line(line.get("kind"), 100), json.dumps(line))
            for line in lines
            if whole(line.get("seq")) is not None
        ]
        connection.executemany("INSERT OR REPLACE INTO events VALUES (?, ?, ?, ?, ?)", rows)
        connection.execute("UPDATE runs SET events_offset = ? WHERE run_id = ?", (next_offset, run_id))
        return True


def curve(database: Database, run_id: str, name: str) -> list[tuple[int, float | None]]:
    """Return (step, value) ordered by step; None stands for NaN."""
    query = "SELECT p.step, p.value FROM points p JOIN series s ON s.id = p.series WHERE s.run_id = ? AND s.name = ? ORDER BY p.step"
    return [(row["step"], row["value"]) for row in database.connection.execute(query, (run_id, name))]


def results(database: Database, run_id: str) -> dict[str, float | None]:
    """Return what a training told at its end, such as `train_samples_per_second`, by name; None stands for NaN."""
    found = {name: curve(database, run_id, name) for name in names(database, run_id) if name.startswith(_RESULT)}
    return {name.removeprefix(_RESULT): points[-1][1] for name, points in found.items() if points}


def figure(value: float | None) -> str:
    """Format a loss for people: `0.4120`, `NaN`, `inf`."""
    return "NaN" if value is None else f"{value:.4f}"


def names(database: Database, run_id: str) -> list[str]:
    return [
        row["name"]
        for row in database.connection.execute("SELECT name FROM series WHERE run_id = ? ORDER BY name", (run_id,))
    ]


def events(database: Database, run_id: str) -> list[str]:
    """Return the lines of a run's events in order; parse them with `armada.protocol.files.read_event`."""
    rows = database.connection.execute("SELECT data FROM events WHERE run_id = ? ORDER BY seq", (run_id,))
    return [row["data"] for row in rows]
