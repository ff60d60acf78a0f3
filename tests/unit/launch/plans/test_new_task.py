"""A new task is one module and one line: loading, its errors, the schema and `armada launch` know it from there."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from armada.cli.main import run
from armada.config.experiments import load_experiment
from armada.config.schema import schema_of
from armada.config.tasks.registry import TASKS, TaskKind
from armada.errors import ConfigError
from armada.launch.plans.task import Parts, Place
from tests.unit.launch.plans.echo_task import EchoTask

HERE = "tests.unit.launch.plans.echo_task"
TEXT = "name: e\ntask: echo\nsentence: hello\n"


@pytest.fixture
def echo(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setitem(TASKS, "echo", TaskKind(f"{HERE}:Echo", f"{HERE}:EchoTask"))
    monkeypatch.setenv("ARMADA_HOME", str(tmp_path / "home"))
    file = tmp_path / "e.yaml"
    file.write_text(TEXT)
    return file


def test_a_task_of_ones_own_is_planned_by_launch(echo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["launch", str(echo), "--host", "local", "--dry-run", "--json"]) == 0
    spec = json.loads(capsys.readouterr().out)["spec"]
    assert (spec["task"], spec["gpus"], spec["training"]) == ("echo", 0, None)
    assert spec["job"]["argv"] == ["echo", "hello"]
    assert spec["watch"] == {"checkpoints": None, "resume": []}  # one that was lost may have succeeded
    assert spec["job"]["env"]["SAID_BY"] == spec["run_id"]
    assert spec["experiment"]["sentence"] == "hello"


def test_the_time_that_a_plan_takes_is_no_error_of_the_hosts_clock(
    echo: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    took: list[float] = []
    now, parts = time.time, EchoTask.parts

    def slow(self: EchoTask, place: Place) -> Parts:
        took.append(1000.0)
        return parts(self, place)

    monkeypatch.setattr(EchoTask, "parts", slow)
    monkeypatch.setattr(time, "time", lambda: now() + sum(took))
    assert run(["launch", str(echo), "--host", "local", "--dry-run"]) == 0
    assert took
    assert "clocks agree" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (TEXT + "model: a/b\n", "e.yaml:4: `model` belongs to `task: sft`"),
        (TEXT.replace("task: echo", "task: command\ncommand: [a]"), "e.yaml:4: `sentence` belongs to `task: echo`"),
        (TEXT.replace("sentence", "sentense"), "e.yaml:3: unknown key `sentense`"),
        (TEXT.replace("sentence: hello\n", ""), "e.yaml:1: `sentence` is missing"),
        (
            TEXT.replace("echo", "ekho"),
            "'kto', 'grpo', 'distill', 'script', 'command' or 'echo', not 'ekho'",
        ),
    ],
)
def test_its_mistakes_are_told_like_those_of_others(echo: Path, text: str, said: str) -> None:
    echo.write_text(text)
    with pytest.raises(ConfigError) as refused:
        load_experiment(echo)
    assert said in str(refused.value)


def test_editors_know_its_keys(echo: Path) -> None:
    made = schema_of("experiment")
    assert made["properties"]["task"]["enum"] == [
        "sft",
        "pretrain",
        "dpo",
        "reward",
        "kto",
        "grpo",
        "distill",
        "script",
        "command",
        "echo",
    ]
    assert made["$defs"]["Echo"]["properties"]["sentence"]["description"] == "What to say."
