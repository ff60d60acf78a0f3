"""Metric curves for the screens: a few points for a sparkline, an outline, or every point after a step."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from armada.store.database import Database

SPARK_POINTS = 10
OUTLINE = 500
FINITE = "CASE WHEN abs(value) <= 1.7976931348623157e308 THEN value END"


def read_spark(database: Database, run_id: str, name: str = "loss") -> tuple[float | None, ...]:
    """Sample a curve at a fixed number of places by index look-ups, however many points it has."""
    connection = database.connection
    series, low, high = find_series(database, run_id, name)
    if low is None or high is None:
        return ()
    values: dict[int, float | None] = {}
    for place in range(SPARK_POINTS):
        step = low + (high - low) * place // (SPARK_POINTS - 1)
        query = "SELECT step, value FROM points WHERE series = ? AND step >= ? ORDER BY step LIMIT 1"
        there, value = connection.execute(query, (series, step)).fetchone()
        values[there] = value
    return tuple(values.values())


def is_long(first: float, last: float) -> bool:
    """Whether a curve between two steps is long enough that its outline is read first."""
    return last - first >= 8 * OUTLINE


def read_curve(
    database: Database, run_id: str, name: str, *, after: float = float("-inf"), outline: bool = False
) -> list[tuple[float, float, float | None]]:
    """Return a metric's points (step, time, value) after a step; None stands for NaN.

    Args:
        database: The store.
        run_id: The run.
        name: The metric.
        after: The last step that the caller already has.
        outline: For a long curve, return only the lowest and highest point of some hundred spans. SQLite finds these
            without holding the GIL; reading half a million points would block the keyboard for a second.
    """
    connection = database.connection
    series, first, last = find_series(database, run_id, name)
    if series is None:
        return []
    if not outline or first is None or last is None or not is_long(first, last):
        query = "SELECT step, time, value FROM points WHERE series = ? AND step > ? ORDER BY step"
        return [tuple(point) for point in connection.execute(query, (series, after))]
    query = f"""SELECT min(step), min(time), min({FINITE}), max(step), min(time), max({FINITE}) FROM points
                WHERE series = ? GROUP BY (step - ?) / ? ORDER BY 1"""  # noqa: S608  # a constant
    spans = connection.execute(query, (series, first, (last - first) // OUTLINE + 1))
    points = [point for span in spans for point in (tuple(span)[:3], tuple(span)[3:])]
    # The exact last point and the newest: a NaN is in no minimum or maximum, and no other point is as new.
    exact = """SELECT step, time, value FROM points WHERE series = ? AND step = ? UNION
               SELECT * FROM (SELECT step, time, value FROM points WHERE series = ? ORDER BY time DESC, step DESC LIMIT 1)"""
    points += map(tuple, connection.execute(exact, (series, last, series)))
    return sorted(points, key=lambda point: point[0])


def is_rewritten(database: Database, run_id: str, name: str, until: float, since: float) -> bool:
    """Whether points up to a step were replaced after a time: the script that measures them counts its steps anew."""
    series, _, _ = find_series(database, run_id, name)
    query = "SELECT EXISTS (SELECT 1 FROM points WHERE series = ? AND step <= ? AND time > ?)"
    (found,) = database.connection.execute(query, (series, until, since)).fetchone()
    return bool(found)


def find_series(database: Database, run_id: str, name: str) -> tuple[int | None, int | None, int | None]:
    """Return a curve's key and its first and last step; None for what does not exist."""
    connection = database.connection
    found = connection.execute("SELECT id FROM series WHERE run_id = ? AND name = ?", (run_id, name)).fetchone()
    if found is None:
        return None, None, None
    series = found[0]
    (low,) = connection.execute("SELECT min(step) FROM points WHERE series = ?", (series,)).fetchone()
    (high,) = connection.execute("SELECT max(step) FROM points WHERE series = ?", (series,)).fetchone()
    return series, low, high
