"""`armada show --time`."""

from __future__ import annotations

from pathlib import Path

import jsonschema
import pytest

from armada.cli.shapes import SHAPES, schema_of
from armada.cli.step_times import say_step_times, step_times_fields
from armada.store import metrics, runs
from armada.store.database import Database

RUN = "t-aaaaaa"


@pytest.fixture
def database(tmp_path: Path) -> Database:
    database = Database(tmp_path / "store.db")
    spec = {"training": {"data": {"workers": 0}, "batch": {"processes": 2}}}
    runs.insert(database, run_id=RUN, name="t", host="box", task="sft", experiment=None, spec=spec)
    return database


def measure(database: Database) -> None:
    lines = [
        {
            "kind": "train", "step": step, "time": 1.0, "time/data": 0.25, "time/forward": 0.5, "time/backward": 1.0,
            "time/communication": 0.125, "time/optimizer": 0.125, "time/evaluation": 8.0 if step == 1 else 0.0,
            "time/saving": 0.0, "time/other": 0.0, "time/slowest_rank": 1, "time/waits_for_it": 0.0625,
        }
        for step in range(1, 81)
    ]  # fmt: skip
    metrics.record_metrics(database, RUN, lines, offset=0, next_offset=1)


def test_the_table_has_the_last_steps_and_the_whole_run(database: Database, capsys: pytest.CaptureFixture[str]) -> None:
    measure(database)
    say_step_times(database, runs.find(database, RUN), 40)
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        "seconds a step, a mean over 2 processes",
        "last 40 steps whole run",
        "data 0.25 12% 0.25 12% ### waiting for the data loader",
        "forward 0.5 25% 0.5 24% ###### the forward pass and the loss",
        "backward 1 50% 1 48% ############ the backward pass",
        "communication 0.125 6% 0.125 6% ## exchanging with the other processes, and waiting for them",
        "optimizer 0.125 6% 0.125 6% ## clipping, optimizer and schedule",
        "saving 0 0% 0 0% checkpoints",
        "evaluation 0 0% 0.1 5% evaluations and sample answers",
        "other 0 0% 0 0% everything else",
        "a step 2 2.1",
        "slowest rank 1: the others wait 0.0625 s a step for it",
        "advice 12% of the time of steps 31 to 80 is spent waiting for data: raise `data.workers`, which is 0",
    ]


def test_a_run_without_times_says_why(database: Database, capsys: pytest.CaptureFixture[str]) -> None:
    run = runs.find(database, RUN)
    say_step_times(database, run, 50)
    assert capsys.readouterr().out == "  not measured: no step was logged yet\n"
    fields = step_times_fields(database, run, 50)
    assert fields == {"why_not": "no step was logged yet", "processes": 2, "last": None, "whole": None}


def test_machines_get_the_same_numbers(database: Database) -> None:
    measure(database)
    fields = step_times_fields(database, runs.find(database, RUN), 40)
    jsonschema.validate(fields, schema_of(SHAPES["show"])["properties"]["time"])
    last = fields["last"]
    assert isinstance(last, dict)
    assert (last["first_step"], last["last_step"], last["step_s"]) == (41, 80, 2.0)
    assert last["parts"][0] == {"part": "data", "seconds": 0.25, "share": 0.125}
    assert (last["slowest_rank"], last["waits_s"]) == (1, 0.0625)
