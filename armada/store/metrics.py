"""Metric curves and events, read from a host's files by offset, each line once."""

from __future__ import annotations

import json
import math
import statistics
from typing import TYPE_CHECKING

from armada.foundation.sanitize import sanitize_line
from armada.foundation.validation import finite, moment, whole

if TYPE_CHECKING:
    from collections.abc import Iterable

    from armada.store.database import Database

_NOT_SERIES = frozenset({"kind", "step", "time", "attempt"})


def _point(value: float) -> float | None:
    """A value as it is kept in a curve: infinite ones as they are, a NaN as None, which is what SQLite makes of it."""
    return value if isinstance(value, float) and math.isinf(value) else finite(value)


def record_metrics(
    database: Database, run_id: str, lines: Iterable[dict[str, object]], *, offset: int, next_offset: int
) -> bool:
    """Store metric lines that stand in the host's file between two offsets.

    A redone step (after a resume) replaces the former one. A `reset` takes back all points of the curves it names: their steps were
    counted, and the right ones follow. The newest loss and speed go into the run's row.

    Returns:
        Whether they were new; False when somebody else has read past `offset` already.
    """
    with database.transaction() as connection:
        row = connection.execute("SELECT metrics_offset FROM runs WHERE run_id = ?", (run_id,)).fetchone()
        if row is None or row["metrics_offset"] != offset:
            return False
        newest: dict[str, object] = {"metrics_offset": next_offset}
        series = {
            r["name"]: r["id"] for r in connection.execute("SELECT name, id FROM series WHERE run_id = ?", (run_id,))
        }
        points: list[tuple[int | None, int, float, float | None]] = []
        paces = []
        for line in lines:
            if line.get("kind") == "reset":
                gone = _series_of(line.get("names"), series)
                connection.executemany("DELETE FROM points WHERE series = ?", [(each,) for each in gone])
                points = [point for point in points if point[0] not in gone]
                continue
            step, at, kind = whole(line.get("step")), moment(line.get("time")), str(line.get("kind"))
            if step is None or at is None:
                continue
            for name, value in line.items():
                if name in _NOT_SERIES or not isinstance(value, int | float) or isinstance(value, bool):
                    continue
                key = name if kind == "train" or name.startswith(kind) else f"{sanitize_line(kind, 40)}/{name}"
                if key not in series:
                    if len(series) >= 500:  # a host cannot fill home's disk with names
                        continue
                    made = connection.execute("INSERT INTO series (run_id, name) VALUES (?, ?)", (run_id, key[:100]))
                    series[key] = made.lastrowid
                points.append((series[key], step, at, _point(value)))
            if kind == "train":
                newest |= {name: finite(line[name]) for name in ("loss", "tokens_per_s") if name in line}
                paces.append(finite(line.get("step_time_s")))
        if known := [pace for pace in paces if pace is not None]:
            newest["step_time_s"] = statistics.median(known)  # one step with a save or an evaluation in it says little
        connection.executemany("INSERT OR REPLACE INTO points VALUES (?, ?, ?, ?)", points)
        names = ", ".join(f"{name} = ?" for name in newest)
        connection.execute(f"UPDATE runs SET {names} WHERE run_id = ?", (*newest.values(), run_id))  # noqa: S608
        return True


def _series_of(names: object, series: dict[str, int]) -> set[int]:
    """The curves that a host names, of those that the run has."""
    return (
        {series[name] for name in names if isinstance(name, str) and name in series}
        if isinstance(names, list)
        else set()
    )


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
    """(step, value) in order of step; a None is a NaN."""
    query = "SELECT p.step, p.value FROM points p JOIN series s ON s.id = p.series WHERE s.run_id = ? AND s.name = ? ORDER BY p.step"
    return [(row["step"], row["value"]) for row in database.connection.execute(query, (run_id, name))]


def figure(value: float | None) -> str:
    """A loss as a person reads it: `0.4120`, `NaN`, `inf`."""
    return "NaN" if value is None else f"{value:.4f}"


def names(database: Database, run_id: str) -> list[str]:
    return [
        row["name"]
        for row in database.connection.execute("SELECT name FROM series WHERE run_id = ? ORDER BY name", (run_id,))
    ]


def events(database: Database, run_id: str) -> list[str]:
    """The lines of a run's events, in their order; `armada.protocol.files.read_event` reads them."""
    rows = database.connection.execute("SELECT data FROM events WHERE run_id = ? ORDER BY seq", (run_id,))
    return [row["data"] for row in rows]
