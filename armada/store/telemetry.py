"""GPU measurements: every point for an hour, one per minute for a day, then one per ten minutes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from armada.store.database import Database

THINNING: tuple[tuple[float, float], ...] = ((3600.0, 60.0), (86_400.0, 600.0))
"""(age in seconds, spacing in seconds): beyond this age one point is kept per spacing."""

KEPT_S = 30 * 86_400.0


@dataclass(frozen=True, slots=True)
class Point:
    """One GPU at one moment; None means that the host did not report it. `utilization` is 0 to 100."""

    gpu: int
    time: float
    utilization: float | None
    memory_used_bytes: int | None
    power_w: float | None
    temperature_c: float | None


def record(database: Database, host: str, points: Iterable[Point]) -> None:
    rows = [(host, p.gpu, p.time, p.utilization, p.memory_used_bytes, p.power_w, p.temperature_c) for p in points]
    if rows:
        with database.transaction() as connection:
            connection.executemany("INSERT OR REPLACE INTO telemetry VALUES (?, ?, ?, ?, ?, ?, ?)", rows)


def of_host(database: Database, host: str, *, since: float = 0.0) -> list[Point]:
    """Return all points of a host's GPUs, ordered by GPU and time."""
    rows = database.connection.execute(
        """SELECT gpu, time, utilization, memory_used_bytes, power_w, temperature_c FROM telemetry
           WHERE host = ? AND time >= ? ORDER BY gpu, time""",
        (host, since),
    )
    return [Point(*row) for row in rows]


def gpus_of(database: Database, host: str) -> list[int]:
    """Return the GPUs that have any point; one look-up each, however many points there are."""
    found: list[int] = []
    query = "SELECT min(gpu) FROM telemetry WHERE host = ? AND gpu > ?"
    gpu = database.connection.execute(query, (host, -1)).fetchone()[0]
    while gpu is not None:
        found.append(gpu)
        gpu = database.connection.execute(query, (host, gpu)).fetchone()[0]
    return found


def of_gpu(database: Database, host: str, gpu: int, *, after: float) -> list[Point]:
    """Return the points of one GPU after a moment, ordered by time."""
    rows = database.connection.execute(
        """SELECT gpu, time, utilization, memory_used_bytes, power_w, temperature_c FROM telemetry
           WHERE host = ? AND gpu = ? AND time > ? ORDER BY time""",
        (host, gpu, after),
    )
    return [Point(*row) for row in rows]


def thin(database: Database, host: str, now: float) -> int:
    """Delete points beyond the density for their age; the first point of each span stays.

    Returns:
        The number of deleted points.
    """
    gone = 0
    with database.transaction() as connection:
        gone += connection.execute("DELETE FROM telemetry WHERE host = ? AND time < ?", (host, now - KEPT_S)).rowcount
        for older_s, every_s in THINNING:
            gone += connection.execute(
                """DELETE FROM telemetry WHERE host = ?1 AND time < ?2 AND EXISTS (
                       SELECT 1 FROM telemetry AS former WHERE former.host = ?1 AND former.gpu = telemetry.gpu
                       AND former.time < telemetry.time AND former.time >= cast(telemetry.time / ?3 AS INTEGER) * ?3)""",
                (host, now - older_s, every_s),
            ).rowcount
    return gone
