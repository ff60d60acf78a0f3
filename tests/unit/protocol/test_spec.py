"""spec.json: its fields in their order, those that were given; and a recorded one, as far as it makes sense."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import ValidationError

from armada.protocol.homes import AskingHome
from armada.protocol.recorded import recorded_spec
from armada.protocol.spec import BatchSection, CreateRun, JobLink, JobSpec, OutboxSpec, Spec

JOB = JobSpec(argv=("echo", "hi"), env={"A": "1"}, code=None, secrets=())


def spec(**changes: Any) -> Spec:
    given: dict[str, Any] = {
        "format": 1, "run_id": "r-1", "name": "r", "task": "command", "created_at": "2026-11-23T05:00:00+00:00", "host": "desk",
        "profile": None, "job": JOB, "gpus": 0, "processes": 1, "environment": None, "scheduler": None, "stop_grace_s": 60.0,
        "time_limit_s": None, "outbox": OutboxSpec(keep=3, disk_floor_bytes=5), "watch": None, "training": None,
        "sync": {}, "experiment": {"name": "r", "origin": None}, "project": None, "launch_key": "k",
    }  # fmt: skip
    return Spec(**{**given, **changes})


def test_a_plan_is_written_in_the_order_of_its_fields_without_those_that_were_not_given() -> None:
    written = spec().as_json()
    assert list(written) == [name for name in Spec.model_fields if name not in ("container", "budget", "home", "sweep")]
    assert written["job"] == {"argv": ["echo", "hi"], "env": {"A": "1"}, "code": None, "secrets": []}
    linked = spec(job=JOB.model_copy(update={"data": (JobLink(content="/c", name="n"),)})).as_json()
    assert json.dumps(linked["job"]).endswith('"secrets": [], "data": [{"content": "/c", "name": "n"}]}')
    home = AskingHome(id="0" * 32, label="me@box", path="/x")
    assert list(spec().model_copy(update={"home": home}).as_json())[-1] == "home"


def test_a_batch_says_global() -> None:
    batch = BatchSection(global_=16, micro=2, accumulation=1, processes=8)
    assert batch.model_dump(mode="json") == {"global": 16, "micro": 2, "accumulation": 1, "processes": 8}


@pytest.mark.parametrize(
    "changes",
    [{"run_id": "R 1"}, {"processes": 0}, {"gpus": -1}, {"time_limit_s": 0.0}, {"stop_grace_s": -1.0}, {"format": 2}],
)
def test_a_plan_that_no_host_would_take_is_not_made(changes: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        spec(**changes)


def test_the_request_carries_the_plan_as_it_is_written() -> None:
    plan = spec()
    request = CreateRun(run_id="r-1", spec=plan, files={"launch/command.json": "{}"}, secrets={}, submission=1)
    assert request.as_params()["spec"] == plan.as_json()
    assert list(request.as_params()) == ["run_id", "spec", "files", "secrets", "submission"]


@pytest.mark.parametrize("stored", [None, [], {}, {"job": 7, "scheduler": [], "training": "x", "stop_grace_s": "soon"}])
def test_of_a_recorded_plan_that_makes_no_sense_nothing_is_known(stored: object) -> None:
    assert recorded_spec(stored) == recorded_spec({})


def test_what_fits_of_a_recorded_plan_is_known() -> None:
    data = {"train": [{"path": "/t"}, {"hub": {"id": "a"}}, 7], "eval": [{"path": "/e"}]}
    found = recorded_spec(
        {"task": "sft", "training": {"lora": {"r": 8}, "data": data, "model": {"tiny": {}}}, "job": None}
    )
    assert found.task == "sft"
    assert found.training is not None
    assert found.training.data is not None
    assert found.training.data.files == ["/e", "/t"]
    assert found.training.lora is not None
    assert found.job is None
