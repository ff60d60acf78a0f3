"""When a training is told that it waits for data."""

from __future__ import annotations

from pathlib import Path

import pytest

from armada.monitor.page import gather
from armada.monitor.step_times import advise_about_data, explain_steps, find_advice
from armada.store import metrics, runs
from armada.store.database import Database
from armada.store.queries.step_times import StepTimes

RUN = "t-aaaaaa"


def times(
    data_s: float, others_s: float = 10.0, *, steps: int = 50, points: int = 5, saving_s: float = 0.0
) -> StepTimes:
    parts = {"data": data_s, "forward": others_s, "saving": saving_s, "evaluation": saving_s}
    return StepTimes(101, 100 + steps, points, parts, data_s)


@pytest.mark.parametrize(
    ("found", "told"),
    [
        (
            times(1.0, 9.0),
            "10% of the time of steps 101 to 150 is spent waiting for data: raise `data.workers`, which is 2",
        ),
        (times(0.9, 9.1), None),
        (times(1.0, 9.0, saving_s=1000.0), "10%"),  # a training that saves for long waits for data all the same
        (times(9.0, 1.0, steps=9), None),
        (times(9.0, 1.0, points=2), None),
        (times(0.0, 0.0), None),
    ],
)
def test_waiting_for_data_is_named_from_a_tenth_on(found: StepTimes, told: str | None) -> None:
    advice = advise_about_data(found, 2)
    assert advice is None if told is None else (advice or "").startswith(told)


def test_one_process_that_waits_makes_all_wait() -> None:
    found = StepTimes(1, 50, 50, {"data": 1.0, "forward": 5.0, "communication": 4.0}, 4.0, 3, 3.0)
    assert (advise_about_data(found, 0) or "").startswith("40%")


def started(database: Database, task: str, spec: dict[str, object], step: int = 0) -> runs.Run:
    runs.insert(database, run_id=RUN, name="t", host="box", task=task, experiment=None, spec=spec)
    if step:
        lines = [{"kind": "train", "step": at, "time": 1.0, "loss": 1.0} for at in (step,)]
        metrics.record_metrics(database, RUN, lines, offset=0, next_offset=1)
    return runs.find(database, RUN)


@pytest.mark.parametrize(
    ("task", "step", "why"),
    [
        ("sft", 0, "no step was logged yet"),
        ("sft", 7, "its trainer is of an older armada"),
        ("script", 7, "a script measures its steps itself: print them as `time/data`"),
        ("merge", 0, "a merge has no steps of a training"),
    ],
)
def test_what_was_not_measured_is_said_with_the_reason(tmp_path: Path, task: str, step: int, why: str) -> None:
    with Database(tmp_path / "store.db") as database:
        split = explain_steps(database, started(database, task, {}, step))
    assert (split.last, split.whole, split.advice) == (None, None, None)
    assert (split.why or "").startswith(why)


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({"training": {"data": {"train": [], "workers": 4}}}, "raise `data.workers`, which is 4"),
        ({"training": {"data": {"train": [], "workers": "\x1b[2J"}}}, "raise `data.workers`, which is 0"),
        ({"training": 7}, "give its loader more processes"),
        ({}, "give its loader more processes"),
    ],
)
def test_the_page_of_a_run_names_the_setting(tmp_path: Path, spec: dict[str, object], told: str) -> None:
    with Database(tmp_path / "store.db") as database:
        run = started(database, "sft", spec)
        lines = [
            {"kind": "train", "step": step, "time": 1.0, "time/data": 0.5, "time/forward": 1.5} for step in range(1, 31)
        ]
        metrics.record_metrics(database, RUN, lines, offset=0, next_offset=1)
        advice = find_advice(database, RUN)
        assert advice == f"25% of the time of steps 1 to 30 is spent waiting for data: {told}"
        assert gather(database, run).advice == advice
