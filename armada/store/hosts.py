"""The last facts that each host sent."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from armada.store.values import decode
from armada.verdicts.idle import stopping_of

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Mapping

    from armada.store.database import Database


@dataclass(frozen=True, slots=True)
class DiskForecast:
    """What armada's runs will do to a host's disk, as predicted at time `at` from `free_bytes` (`armada.sync.schedule.disk_forecast`).

    The runs write `bytes_per_s` now and `needed_bytes` in total (None: unknown). `full_at` is when the disk will be
    full.
    """

    at: float
    free_bytes: int
    bytes_per_s: float
    needed_bytes: float | None
    full_at: float | None


@dataclass(frozen=True, slots=True)
class HostRecord:
    """The newest facts of a host and when they were observed; `unreachable_since` is set while polls fail.

    `origin` is the file in which the host was configured at its last launch, empty for the built-in `local`; it is how
    hosts of a project are found.
    `released_at` is set once all of armada's files there were deleted. Background work then leaves the host alone,
    since any connection would install the agent again. `first_seen_at` is when it first answered: from then on it is
    rented. `stopping` is what became of its stop command. `most_gpus` is the largest number of GPUs that it showed: what
    is paid, also while one is broken or nvidia-smi does not answer.
    """

    name: str
    facts: dict[str, object] | None
    observed_at: float | None
    unreachable_since: float | None
    unreachable_why: str | None
    origin: str | None = None
    released_at: float | None = None
    forecast: DiskForecast | None = None
    first_seen_at: float | None = None
    stopping: dict[str, object] | None = None
    most_gpus: int | None = None


def record_facts(database: Database, name: str, facts: Mapping[str, object], *, origin: str | None = None) -> None:
    """Record a host's facts and mark it reachable. Facts about its batch system are kept until new ones arrive.

    A host that was stopped by its stop command is paid again from now on, whoever asked it.
    """
    now = time.time()
    with database.transaction() as connection:
        row = connection.execute("SELECT facts, stopping FROM hosts WHERE name = ?", (name,)).fetchone()
        stopping = stopping_of(_decode(row, "stopping", name) if row is not None else None)
        if stopping.state == "gone":
            told = json.dumps(stopping.came_back(now).as_json())
            connection.execute("UPDATE hosts SET stopping = ? WHERE name = ?", (told, name))
        gpus = facts.get("gpus")
        former = (_decode(row, "facts", name) if row is not None else None) or {}
        kept = former.get("queue")
        # The agent reports its own GPU queue with every poll, but the batch system's queue only when it was asked for.
        if _is_of_batch_system(kept) and not _is_of_batch_system(facts.get("queue")):
            facts = {**facts, "queue": kept}
        connection.execute(
            """INSERT INTO hosts (name, facts, observed_at, origin, first_seen_at, most_gpus) VALUES (?, ?, ?, ?, ?, ?)
               ON CONFLICT (name) DO UPDATE SET
               facts = excluded.facts, observed_at = excluded.observed_at, unreachable_since = NULL, unreachable_why = NULL,
               origin = coalesce(excluded.origin, origin),
               first_seen_at = coalesce(first_seen_at, excluded.first_seen_at),
               most_gpus = max(coalesce(most_gpus, 0), excluded.most_gpus)""",
            (name, json.dumps(facts), now, origin, now, len(gpus) if isinstance(gpus, list) else 0),
        )


def was_seen_before(database: Database, name: str, moment: float) -> None:
    """Record that a host was there at a moment already: its runs, which are still there, began then."""
    with database.transaction() as connection:
        query = "UPDATE hosts SET first_seen_at = ? WHERE name = ? AND (first_seen_at IS NULL OR first_seen_at > ?)"
        connection.execute(query, (moment, name, moment))


def _is_of_batch_system(queue: object) -> bool:
    return isinstance(queue, dict) and ("partitions" in queue or bool(queue.get("error")))


def record_forecast(database: Database, name: str, forecast: DiskForecast | None) -> None:
    with database.transaction() as connection:
        text = json.dumps(asdict(forecast)) if forecast is not None else None
        connection.execute("UPDATE hosts SET forecast = ? WHERE name = ?", (text, name))


def mark_unreachable(database: Database, name: str, why: str) -> None:
    """Record that a poll failed; the last facts are kept."""
    with database.transaction() as connection:
        connection.execute(
            """INSERT INTO hosts (name, unreachable_since, unreachable_why) VALUES (?, ?, ?) ON CONFLICT (name) DO UPDATE SET
               unreachable_since = coalesce(unreachable_since, excluded.unreachable_since),
               unreachable_why = excluded.unreachable_why""",
            (name, time.time(), why),
        )


def mark_released(database: Database, name: str, moment: float | None) -> None:
    """Mark a host as released, so that it is left alone; None clears the mark, and keeps for how long it was nobody's."""
    with database.transaction() as connection:
        if moment is None:
            _note_away(connection, name)
        connection.execute(
            "INSERT INTO hosts (name, released_at) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET released_at = excluded.released_at",
            (name, moment),
        )


def _note_away(connection: sqlite3.Connection, name: str) -> None:
    """Add the time since a host was released to the times for which it is not paid."""
    row = connection.execute("SELECT released_at, stopping FROM hosts WHERE name = ?", (name,)).fetchone()
    if row is None or row["released_at"] is None:
        return
    told = _decode(row, "stopping", name) or {}
    told["away"] = [*(told.get("away") or []), [row["released_at"], time.time()]]
    connection.execute("UPDATE hosts SET stopping = ? WHERE name = ?", (json.dumps(told), name))


def record_stopping(database: Database, name: str, stopping: Mapping[str, object]) -> None:
    """Record what became of a host's stop command."""
    with database.transaction() as connection:
        connection.execute("UPDATE hosts SET stopping = ? WHERE name = ?", (json.dumps(stopping), name))


def _decode(row: sqlite3.Row, column: str, name: str) -> dict[str, Any] | None:
    stored = row[column]
    return decode(dict, stored, f"the column {column} of {name}") if stored else None


def find(database: Database, name: str) -> HostRecord | None:
    row = database.connection.execute("SELECT * FROM hosts WHERE name = ?", (name,)).fetchone()
    if row is None:
        return None
    values = dict(row)
    values["facts"] = _decode(row, "facts", name)
    forecast = _decode(row, "forecast", name)
    values["forecast"] = DiskForecast(**forecast) if forecast else None
    values["stopping"] = _decode(row, "stopping", name)
    return HostRecord(**values)


def every(database: Database) -> list[HostRecord]:
    names = [row["name"] for row in database.connection.execute("SELECT name FROM hosts ORDER BY name")]
    return [record for name in names if (record := find(database, name)) is not None]


def delete(database: Database, name: str) -> None:
    with database.transaction() as connection:
        connection.execute("DELETE FROM hosts WHERE name = ?", (name,))
