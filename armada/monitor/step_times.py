"""Explain where a training's steps spend their time, and say when they wait for data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from armada.config.tasks.registry import TRAININGS
from armada.foundation.validation import mapping, whole
from armada.store import runs
from armada.store.queries.step_times import StepTimes, read_step_times

if TYPE_CHECKING:
    from collections.abc import Mapping

    from armada.store.database import Database
    from armada.store.runs import Run

WINDOW = 50
"""The newest steps that are shown, and from which advice is derived."""
_STALLED = 0.10
"""The share of the training's time from which on waiting for data is named."""
_FEWEST_STEPS, _FEWEST_POINTS = 10, 3
_NO_TRAINING = ("saving", "evaluation")


@dataclass(frozen=True, slots=True)
class TimeSplit:
    """Where the time went.

    Attributes:
        last: In the newest steps; None if nothing was measured.
        whole: In all steps.
        why: Why nothing was measured.
        processes: How many train.
        advice: What would make the steps faster.
    """

    last: StepTimes | None
    whole: StepTimes | None
    why: str | None
    processes: int
    advice: str | None


def explain_steps(database: Database, run: Run, last: int = WINDOW) -> TimeSplit:
    """Explain where the time of a run's steps went.

    Args:
        database: The store.
        run: The run.
        last: How many of the newest steps.
    """
    training = mapping(runs.spec(database, run.run_id).get("training"))
    processes = whole(mapping(training.get("batch")).get("processes")) or 1
    whole_run = read_step_times(database, run.run_id)
    newest = read_step_times(database, run.run_id, last)
    why = _why_not(run) if whole_run is None else None
    return TimeSplit(newest, whole_run, why, processes, find_advice(database, run.run_id, training))


def find_advice(database: Database, run_id: str, training: Mapping[str, object] | None = None) -> str | None:
    """Return what would make a run's steps faster; None if nothing is known to."""
    times = read_step_times(database, run_id, WINDOW)
    if times is None:
        return None
    if training is None:
        training = mapping(runs.spec(database, run_id).get("training"))
    data = mapping(training.get("data"))
    return advise_about_data(times, (whole(data.get("workers")) or 0) if data else None)


def advise_about_data(times: StepTimes, workers: int | None) -> str | None:
    """Say that a training waits for data, if that takes a tenth of its time or more.

    Args:
        times: Of its newest steps.
        workers: The processes of each rank that make rows beside it (`data.workers`); None for a job of the user's own.
    """
    trained_s = times.total_s - sum(times.parts_s.get(part, 0.0) for part in _NO_TRAINING)
    if times.steps < _FEWEST_STEPS or times.points < _FEWEST_POINTS or trained_s <= 0:
        return None
    share = min(1.0, times.data_slowest_s / trained_s)
    if share < _STALLED:
        return None
    more = "give its loader more processes" if workers is None else f"raise `data.workers`, which is {workers}"
    span = f"steps {times.first_step:,} to {times.last_step:,}"
    return f"{share:.0%} of the time of {span} is spent waiting for data: {more}"


def _why_not(run: Run) -> str:
    if run.task in ("script", "command"):
        return (
            f"a {run.task} measures its steps itself: print them as `time/data`, `time/forward` and so on by armada_log, "
            "in seconds a step"
        )
    if run.task not in TRAININGS:
        return f"a {run.task} has no steps of a training"
    return "its trainer is of an older armada" if run.step else "no step was logged yet"
