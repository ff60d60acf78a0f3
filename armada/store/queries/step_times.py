"""Where the time of a training's steps went, added up from its curves `time/<part>`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from armada.store.database import Database

PARTS = ("data", "forward", "backward", "communication", "optimizer", "saving", "evaluation", "other")
"""As the payload names them."""
_PREFIX = "time/"
_LEFT = "summary/time/"
_MOST_S = 1e9
"""Longer times are not believed."""


@dataclass(frozen=True, slots=True)
class StepTimes:
    """The time of some steps.

    Attributes:
        first_step: The first of them.
        points: How many lines of metrics they are made from.
        parts_s: The seconds of each part in all, a mean over the processes.
        data_slowest_s: How long the process that waited longest for data waited, in all.
        slowest_rank: The process that the others waited for most often; None with one process.
        waits_s: How long the others waited for the slowest process, in all; None with one process.
    """

    first_step: int
    last_step: int
    points: int
    parts_s: Mapping[str, float]
    data_slowest_s: float
    slowest_rank: int | None = None
    waits_s: float | None = None

    @property
    def steps(self) -> int:
        return self.last_step - self.first_step + 1

    @property
    def total_s(self) -> float:
        return sum(self.parts_s.values())


def read_step_times(database: Database, run_id: str, last: int | None = None) -> StepTimes | None:
    """Add up where the time went; None if nothing was measured.

    Args:
        database: The store.
        run_id: The run.
        last: Only the last so many steps; None: all of them, with what followed the last line of a step.
    """
    series = _series(database, run_id)
    known = {part: series[_PREFIX + part] for part in PARTS if _PREFIX + part in series}
    if not known:
        return None
    connection = database.connection
    query = "SELECT max(step) FROM points WHERE series = ?"
    (newest,) = connection.execute(query, (next(iter(known.values())),)).fetchone()
    if newest is None or newest < 1:
        return None
    # A line is about the steps since the one before, so that one is read too.
    after = max(0, newest - last if last is not None else 0)
    found = {part: _sum(database, number, after) for part, number in known.items()}
    if not any(points for _, _, points in found.values()):
        return None
    parts = {part: seconds for part, (seconds, _, _) in found.items()}
    if last is None:
        for part in parts:
            parts[part] += _left(database, series.get(_LEFT + part))
    covered = max(steps for _, steps, _ in found.values())
    data_slowest = series.get(f"{_PREFIX}data_slowest")
    waits, slowest = series.get(f"{_PREFIX}waits_for_it"), series.get(f"{_PREFIX}slowest_rank")
    return StepTimes(
        first_step=max(1, newest - covered + 1),
        last_step=newest,
        points=max(points for _, _, points in found.values()),
        parts_s=parts,
        data_slowest_s=_sum(database, data_slowest, after)[0] if data_slowest else parts.get("data", 0.0),
        slowest_rank=_most_often(database, slowest, after) if slowest else None,
        waits_s=_sum(database, waits, after)[0] if waits else None,
    )


def _series(database: Database, run_id: str) -> dict[str, int]:
    query = "SELECT name, id FROM series WHERE run_id = ? AND (name GLOB 'time/*' OR name GLOB 'summary/time/*')"
    return {row["name"]: row["id"] for row in database.connection.execute(query, (run_id,))}


_WEIGHTED = f"""WITH before AS (SELECT coalesce(max(step), 0) AS step FROM points WHERE series = :series AND step <= :after),
    each AS (SELECT step, value, step - coalesce(lag(step) OVER (ORDER BY step),
            CASE WHEN step <= 1 THEN step - 1 ELSE 2 * step - coalesce(lead(step) OVER (ORDER BY step), step + 1) END) AS steps
        FROM points WHERE series = :series AND step >= (SELECT step FROM before))
    SELECT {{chosen}} FROM each WHERE step > :after AND value >= 0 AND value < {_MOST_S}"""  # noqa: S608  # constants
"""A point stands for the steps since the point before; the first of all for step 1, or for as many as the next one."""


def _sum(database: Database, series: int, after: int) -> tuple[float, int, int]:
    """Return the seconds of a curve in all, and the number of steps and of points."""
    chosen = "coalesce(sum(value * steps), 0.0), coalesce(sum(steps), 0), count(*)"
    query = _WEIGHTED.format(chosen=chosen)
    seconds, steps, points = database.connection.execute(query, {"series": series, "after": after}).fetchone()
    return float(seconds), int(steps), int(points)


def _most_often(database: Database, series: int, after: int) -> int | None:
    query = _WEIGHTED.format(chosen="CAST(value AS INTEGER)") + " GROUP BY 1 ORDER BY sum(steps) DESC, 1 LIMIT 1"
    row = database.connection.execute(query, {"series": series, "after": after}).fetchone()
    return int(row[0]) if row is not None else None


def _left(database: Database, series: int | None) -> float:
    """Return what a part took after the last line of a step."""
    if series is None:
        return 0.0
    query = "SELECT value FROM points WHERE series = ? ORDER BY step DESC LIMIT 1"
    row = database.connection.execute(query, (series,)).fetchone()
    return float(row[0]) if row is not None and row[0] is not None and 0 <= row[0] < _MOST_S else 0.0
