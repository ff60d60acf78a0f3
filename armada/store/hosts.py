"""The facts that hosts sent last."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from armada.store.database import Database


@dataclass(frozen=True, slots=True)
class DiskForecast:
    """What armada's runs will do to a host's disk, as foreseen `at` a time from `free_bytes` (see `armada.sync.schedule.disk_forecast`).

    They write `bytes_per_s` now and `needed_bytes` in the end (None: nobody can say). `full_at` is when that is too much.
    """

    at: float
    free_bytes: int
    bytes_per_s: float
    needed_bytes: float | None
    full_at: float | None


@dataclass(frozen=True, slots=True)
class HostRecord:
    """The newest facts and when they were observed; `unreachable_since` is set while looks fail.

    `origin` is the file the host was configured in when it was last launched on: a project's own hosts are found by it.
    `released_at` is set once everything of ours there was deleted: nobody goes there unasked, that would put it back.
    """

    name: str
    facts: dict[str, object] | None
    observed_at: float | None
    unreachable_since: float | None
    unreachable_why: str | None
    origin: str | None = None
    released_at: float | None = None
    forecast: DiskForecast | None = None


def record_facts(database: Database, name: str, facts: Mapping[str, object], *, origin: str | None = None) -> None:
    """Take what a host said; it is reachable, then. What its batch system said stays until somebody asks that again."""
    with database.transaction() as connection:
        row = connection.execute("SELECT facts FROM hosts WHERE name = ?", (name,)).fetchone()
        former = json.loads(row["facts"]) if row is not None and row["facts"] else {}
        kept = former.get("queue")
        # An agent tells who waits for GPUs with every look; of a batch system there is a word only when it was asked.
        if _is_of_batch_system(kept) and not _is_of_batch_system(facts.get("queue")):
            facts = {**facts, "queue": kept}
        connection.execute(
            """INSERT INTO hosts (name, facts, observed_at, origin) VALUES (?, ?, ?, ?) ON CONFLICT (name) DO UPDATE SET
               facts = excluded.facts, observed_at = excluded.observed_at, unreachable_since = NULL, unreachable_why = NULL,
               origin = coalesce(excluded.origin, origin)""",
            (name, json.dumps(facts), time.time(), origin),
        )


def _is_of_batch_system(queue: object) -> bool:
    return isinstance(queue, dict) and ("partitions" in queue or bool(queue.get("error")))


def record_forecast(database: Database, name: str, forecast: DiskForecast | None) -> None:
    with database.transaction() as connection:
        text = json.dumps(asdict(forecast)) if forecast is not None else None
        connection.execute("UPDATE hosts SET forecast = ? WHERE name = ?", (text, name))


def mark_unreachable(database: Database, name: str, why: str) -> None:
    """A failed look keeps the last facts."""
    with database.transaction() as connection:
        connection.execute(
            """INSERT INTO hosts (name, unreachable_since, unreachable_why) VALUES (?, ?, ?) ON CONFLICT (name) DO UPDATE SET
               unreachable_since = coalesce(unreachable_since, excluded.unreachable_since),
               unreachable_why = excluded.unreachable_why""",
            (name, time.time(), why),
        )


def mark_released(database: Database, name: str, moment: float | None) -> None:
    """Leave a host alone from now on, or, with None, no longer."""
    with database.transaction() as connection:
        connection.execute(
            "INSERT INTO hosts (name, released_at) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET released_at = excluded.released_at",
            (name, moment),
        )


def find(database: Database, name: str) -> HostRecord | None:
    row = database.connection.execute("SELECT * FROM hosts WHERE name = ?", (name,)).fetchone()
    if row is None:
        return None
    values = dict(row)
    values["facts"] = json.loads(values["facts"]) if values["facts"] else None
    values["forecast"] = DiskForecast(**json.loads(values["forecast"])) if values["forecast"] else None
    return HostRecord(**values)


def every(database: Database) -> list[HostRecord]:
    names = [row["name"] for row in database.connection.execute("SELECT name FROM hosts ORDER BY name")]
    return [record for name in names if (record := find(database, name)) is not None]


def delete(database: Database, name: str) -> None:
    with database.transaction() as connection:
        connection.execute("DELETE FROM hosts WHERE name = ?", (name,))
