"""Summaries of metrics: the last value, and the lowest and highest with their steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from armada.store.queries.curves import FINITE

if TYPE_CHECKING:
    from armada.store.database import Database

Point = tuple[int, float | None]
"""Step and value; None stands for NaN."""


@dataclass(frozen=True, slots=True)
class MetricSummary:
    """One metric of one run. Lowest and highest are of its finite values; None if there are none.

    The last value is the one that was measured last: after a resume, its step may be below those of the former attempt.
    """

    last: Point
    lowest: Point | None
    highest: Point | None


def summarize(database: Database, run_id: str, name: str) -> MetricSummary | None:
    """Summarize a metric; None if the run has no point of it."""
    connection = database.connection
    found = connection.execute("SELECT id FROM series WHERE run_id = ? AND name = ?", (run_id, name)).fetchone()
    if found is None:
        return None
    query = "SELECT step, value FROM points WHERE series = ? ORDER BY time DESC, step DESC LIMIT 1"
    last = connection.execute(query, (found[0],)).fetchone()
    if last is None:
        return None
    # With one min() or max(), SQLite takes the other columns from the row that has it.
    low, high = (
        connection.execute(f"SELECT step, {which}({FINITE}) FROM points WHERE series = ?", (found[0],)).fetchone()  # noqa: S608
        for which in ("min", "max")
    )
    return MetricSummary(
        (last[0], last[1]), *((point[0], point[1]) if point[1] is not None else None for point in (low, high))
    )
