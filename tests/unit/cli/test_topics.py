"""`armada help TOPIC`: the pages say all that the program knows, fit the terminal, and unknown topics get a near one."""

from __future__ import annotations

import json

import jsonschema
import pytest

from armada.cli.main import run
from armada.cli.shapes import SHAPES, schema_of
from armada.config.candidates import settings
from armada.config.key_list import keys_of_host, keys_of_task
from armada.config.tasks.registry import TASKS, models
from armada.errors import EXIT_CODES
from armada.verdicts.states import STATE_MEANINGS, STATES


def page(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert run(["help", *words]) == 0
    return capsys.readouterr().out


def test_every_state_has_a_meaning(capsys: pytest.CaptureFixture[str]) -> None:
    assert list(STATE_MEANINGS) == list(STATES)
    said = page(capsys, "states")
    assert all(f" {state} " in said for state in STATES)


def test_every_exit_code_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert [int(line.split()[0]) for line in page(capsys, "exit-codes").splitlines()] == list(EXIT_CODES)


@pytest.mark.parametrize("task", TASKS)
def test_every_key_of_a_task_is_on_its_page(capsys: pytest.CaptureFixture[str], task: str) -> None:
    said = page(capsys, "experiment", task)
    names = {line.split()[0].rstrip(":") for line in said.splitlines() if line.startswith("  ") and line[2] != " "}
    keys = {key.name for key in keys_of_task(task)}
    assert keys <= names
    fields = {
        name
        for name, info in models()[task].model_fields.items()
        if not info.exclude and name not in models()[task].from_elsewhere
    }
    assert {name for name in keys if "." not in name and "[" not in name} == fields


def test_what_set_completes_is_explained() -> None:
    explained = {key.name for task in TASKS for key in keys_of_task(task)}
    assert {word.removesuffix("=") for word in settings("")} <= explained


def test_the_overview_has_the_first_keys_of_all_tasks(capsys: pytest.CaptureFixture[str]) -> None:
    said = page(capsys, "experiment")
    tops = {key.name for task in TASKS for key in keys_of_task(task) if "." not in key.name}
    assert {line.split()[0] for line in said.splitlines() if line.startswith("  ")} >= tops
    assert all(f"task: {task}" in said for task in TASKS)


def test_the_hosts_page_has_the_commands_and_the_keys(capsys: pytest.CaptureFixture[str]) -> None:
    said = page(capsys, "hosts")
    assert said.startswith("usage: armada hosts ")
    assert all(f"\n  {key.name}" in said for key in keys_of_host())


@pytest.mark.parametrize("topic", ["experiment", "states", "filters"])
def test_a_page_fits_the_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, topic: str
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    wide = page(capsys, topic)
    monkeypatch.setenv("COLUMNS", "72")
    narrow = page(capsys, topic)
    assert narrow.split() == wide.split()
    assert max(map(len, wide.splitlines())) > 72 >= max(map(len, narrow.splitlines()))


@pytest.mark.parametrize("topic", ["experiment", "experiment script", "hosts", "states", "", "launch", "sync now"])
def test_a_page_is_an_object_with_json(capsys: pytest.CaptureFixture[str], topic: str) -> None:
    told = json.loads(page(capsys, *topic.split(), "--json"))
    jsonschema.validate(told, schema_of(SHAPES["help"]))
    assert told["topic"] == topic
    assert len(told["text"]) > 100


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["stats"], "did you mean armada help states?"),
        (["expriment"], "did you mean armada help experiment?"),
        (["exit-code"], "did you mean armada help exit-codes?"),
        (["evaluate"], "armada help lists the commands"),
        (["quantize"], "armada help lists the commands"),
        (
            ["experiment", "sfd"],
            "armada help experiment sft | pretrain | dpo | reward | kto | grpo | distill | script | command",
        ),
        (
            ["experiment", "sft", "train"],
            "armada help experiment sft | pretrain | dpo | reward | kto | grpo | distill | script | command",
        ),
        (["states", "running"], "armada help states"),
    ],
)
def test_a_topic_that_is_not_there_is_wrong_usage(
    capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    assert run(["help", *words]) == 2
    assert capsys.readouterr().err.splitlines()[-1] == f"  → {said}"
