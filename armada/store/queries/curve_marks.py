"""Where a metric's curve has values that are not finite, and where its run was resumed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from armada.store.queries.curves import FINITE, find_series

if TYPE_CHECKING:
    from collections.abc import Sequence

    from armada.store.database import Database

MOST_GAPS = 500
_GAPS = f"""SELECT step FROM (SELECT step, {FINITE} IS NULL AS gap, lag({FINITE} IS NULL, 1, 0) OVER (ORDER BY step) AS before
    FROM points WHERE series = ?) WHERE gap AND NOT before ORDER BY step LIMIT ?"""  # noqa: S608  # a constant
_RESUMED = """SELECT min(step) FROM points WHERE series = :series AND time >= :moment
    AND EXISTS (SELECT 1 FROM points WHERE series = :series AND time < :moment)"""


def read_gaps(database: Database, run_id: str, name: str, most: int = MOST_GAPS) -> list[float]:
    """Return the steps at which values that are not finite begin."""
    series, _, _ = find_series(database, run_id, name)
    return [] if series is None else [step for (step,) in database.connection.execute(_GAPS, (series, most))]


def read_resumes(database: Database, run_id: str, name: str, moments: Sequence[float]) -> list[float]:
    """Return the first step after each moment at which the run was resumed, if the curve had begun before."""
    series, _, _ = find_series(database, run_id, name)
    if series is None:
        return []
    found = (
        database.connection.execute(_RESUMED, {"series": series, "moment": moment}).fetchone()[0] for moment in moments
    )
    return sorted({step for step in found if step is not None})
