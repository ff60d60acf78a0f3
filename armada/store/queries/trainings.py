"""The speed of recorded trainings, and how long runs took, for estimates of the next ones."""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from armada.store.database import Database

MOST_RUNS = 200
"""The newest runs are looked at; older ones say less about today's libraries."""

_MOST_POINTS = 500
_RATES = ("tokens_per_s", "samples_per_s", "mfu")


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """A run and its plan, as the store has them."""

    run_id: str
    host: str
    root_id: str | None
    state: str
    started_at: float | None
    ended_at: float | None
    total_steps: int | None
    spec: dict[str, Any]


@dataclass(frozen=True, slots=True)
class RecordedSpeed:
    """The means of a run's curves without their first point, which contains the start; 0 is not known."""

    points: int
    step_s: float
    square_s2: float
    tokens_per_s: float
    samples_per_s: float
    mfu: float
    eval_s: float


def newest_runs(database: Database, task: str, *, timed: bool) -> list[RecordedRun]:
    """Return runs of a task, newest first.

    Args:
        database: The store.
        task: The task.
        timed: Only runs that reported the time of a step; else only those that succeeded.
    """
    condition = "step_time_s IS NOT NULL" if timed else "state = 'succeeded'"
    query = f"""SELECT run_id, host, root_id, state, started_at, ended_at, total_steps, spec FROM runs
        WHERE task = ? AND {condition} ORDER BY created_at DESC, run_id LIMIT {MOST_RUNS}"""  # noqa: S608  # constants
    found = []
    for row in database.connection.execute(query, (task,)):
        with contextlib.suppress(ValueError):
            spec = json.loads(row["spec"])
            if isinstance(spec, dict):
                found.append(RecordedRun(**{**dict(row), "spec": spec}))
    return found


def read_speed(database: Database, run_id: str) -> RecordedSpeed | None:
    """Return the mean speed of a run over its newest points, weighted by time; None if it has no two points."""
    rows = database.connection.execute("SELECT name, id FROM series WHERE run_id = ?", (run_id,))
    series = {row["name"]: row["id"] for row in rows}
    if "step_time_s" not in series:
        return None
    # The mean over time of another curve: each of its points weighted by the length of its step.
    other = "(SELECT p.value FROM points p WHERE p.series = :{} AND p.step = d.step)"
    means = (f"coalesce(sum(d.value * {other.format(name)}) / sum(d.value), 0)" for name in _RATES)
    of_each = ", ".join(means)
    query = f"""WITH d AS (SELECT step, value FROM points WHERE series = :step_time_s AND value > 0
        AND step > (SELECT min(step) FROM points WHERE series = :step_time_s) ORDER BY step DESC LIMIT {_MOST_POINTS})
        SELECT count(*), avg(d.value), avg(d.value * d.value), {of_each},
        coalesce((SELECT avg(value) FROM points WHERE series = :eval_seconds), 0) FROM d"""  # noqa: S608  # constants
    names = ("step_time_s", *_RATES, "eval_seconds")
    row = database.connection.execute(query, {name: series.get(name, -1) for name in names}).fetchone()
    return RecordedSpeed(*row) if row[0] else None
