"""`armada data show`: what a model will see, in characters without a host, in tokens where an environment is."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from armada.cli.shapes import SHAPES, schema_of
from armada.provision.payload import payload_content
from tests.conftest import Armada

ROWS = [
    {"instruction": "Say \x1b[31mred\x1b[0m.", "input": "", "output": "red"},
    {"instruction": "Say green.", "input": "twice", "output": "green green"},
]
STUB = """\
#!{python}
import json, sys
asked = json.load(sys.stdin)
assert sys.argv[1:] == ["-m", "armada_train.show"], sys.argv
print("a library warns")
def part(each):
    rows = each["rows"]
    pieces = [{{"of": "", "text": "asked \\x1b[2J", "trained": False, "tokens": 2}},
              {{"of": "", "text": "said", "trained": True, "tokens": 1}}]
    return {{"name": each["name"], "kind": each["kind"], "lengths": [3, 300][: len(rows)], "trained": [1, 0][: len(rows)],
             "examples": [pieces] * min(asked["examples"], len(rows))}}
problem = {problem!r}
print("@@ " + json.dumps({{"parts": [] if problem else [part(each) for each in asked["parts"]],
                           "problem": problem, "notes": ["learnt from few"]}}))
"""


@pytest.fixture
def experiment(armada: Armada) -> str:
    armada.write("rows.jsonl", "".join(json.dumps(row) + "\n" for row in ROWS))
    return write(armada)


def write(armada: Armada, **data: Any) -> str:
    content = {
        "name": "answers",
        "task": "sft",
        "model": {"tiny": {}},
        "data": {"train": [{"path": "rows.jsonl"}], "eval": [{"path": "rows.jsonl"}], **data},
        "train": {"global_batch_size": 2, "epochs": 1, "max_length": 256},
    }
    return armada.write("exp.yaml", json.dumps(content))


def provision(armada: Armada, experiment: str, problem: str | None = None) -> Path:
    """Put an environment and the trainer on this machine; its Python is a program that answers as the trainer does."""
    planned = armada.json("prepare", "--host", "local", experiment, "--dry-run")
    root = armada.local_runs.parent
    folder: Path = root / "envs" / planned["spec"]["environment"]["key"]
    (folder / "bin").mkdir(parents=True, exist_ok=True)
    python = folder / "bin" / "python"
    python.write_text(STUB.format(python=shutil.which("python3"), problem=problem))
    python.chmod(0o755)
    (folder / "READY").write_text(json.dumps({"key": folder.name}))
    code = root / "code" / payload_content().sha
    if not code.exists():
        code.parent.mkdir(parents=True, exist_ok=True)
        for name, _, _, mode in payload_content().manifest:
            (code / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(payload_content().source / name, code / name)
            (code / name).chmod(mode)
    return folder


def test_without_an_environment_rows_and_characters_are_shown(armada: Armada, experiment: str) -> None:
    told = armada.json("data", "show", experiment, "--n", "1")
    jsonschema.validate(told, schema_of(SHAPES["data show"]))
    assert (told["unit"], told["host"]) == ("characters", None)
    assert "nothing of armada's" in told["why"]
    train, evaluation = told["parts"]
    assert (train["rows"], train["sampled"], train["looks"], train["beyond"]) == (2, 2, "Alpaca", None)
    assert [piece["trained"] for piece in train["examples"][0]["pieces"]] == [False, True]
    assert (evaluation["part"], len(evaluation["examples"])) == ("eval", 1)
    said = armada.run("data", "show", experiment)
    assert said.returncode == 0, said.stderr
    assert "[[user: Say �[31mred�[0m.]]\nassistant: red" in said.stdout
    assert "\x1b" not in said.stdout
    assert "train: 2 rows, which look like Alpaca" in said.stdout


def test_with_an_environment_tokens_are_shown_and_hostile_texts_are_inert(armada: Armada, experiment: str) -> None:
    provision(armada, experiment)
    told = armada.json("data", "show", experiment, "--n", "1")
    jsonschema.validate(told, schema_of(SHAPES["data show"]))
    assert (told["unit"], told["host"], told["why"]) == ("tokens", "local", None)
    part = told["parts"][0]
    assert (part["shortest"], part["longest"], part["beyond"], part["total"], part["trained"]) == (3, 300, 1, 303, 1)
    assert part["untrained_rows"] == 1
    said = armada.run("data", "show", experiment, "--host", "local").stdout
    assert "[[asked �[2J]]said" in said
    assert "\x1b" not in said
    assert "1 row is longer than train.max_length 256, and will be dropped" in said
    assert "nothing is trained on in 1 row" in said


def test_where_colours_are_asked_for_each_line_of_what_is_masked_is_grey(armada: Armada, experiment: str) -> None:
    """As the dashboard asks; its window colours lines one by one."""
    armada.env["FORCE_COLOR"] = "1"
    said = armada.run("data", "show", experiment, "--n", "2").stdout
    assert "\x1b[90muser: Say �[31mred�[0m.\x1b[0m\nassistant: red" in said
    assert "\x1b[90muser: Say green.\x1b[0m\n" in said
    assert "\x1b[90mtwice\x1b[0m\nassistant: green green" in said
    assert "[[" not in said
    armada.env["NO_COLOR"] = "1"
    assert "\x1b" not in armada.run("data", "show", experiment).stdout


def test_a_host_that_cannot_tokenise_says_why(armada: Armada, experiment: str) -> None:
    folder = provision(armada, experiment, "the model acme/none cannot be loaded: \x1b[31mno")
    told = armada.json("data", "show", experiment)
    assert told["unit"] == "characters"
    assert "the model acme/none cannot be loaded: �[31mno" in told["why"]
    (folder / "bin" / "python").write_text("#!/bin/sh\necho broken >&2\nexit 3\n")
    assert "exit code 3" in armada.json("data", "show", experiment)["why"]
    (folder / "READY").unlink()
    assert "local lacks its environment" in armada.json("data", "show", experiment)["why"]


def test_what_cannot_be_shown_is_refused(armada: Armada, experiment: str) -> None:
    assert armada.run("data", "show", experiment, "--host", "nowhere").returncode == 7
    assert armada.run("data", "show", experiment, "--n", "-1").returncode == 2
    armada.write("rows.jsonl", json.dumps(ROWS[0]) + '\n{"instruction": "a", "output": ""}\n')
    refused = armada.run("data", "show", experiment)
    assert (refused.returncode, "rows.jsonl:2: `output` is empty" in refused.stderr) == (2, True)
    command = armada.command("true")
    assert "whose data only its own code reads" in armada.run("data", "show", command).stderr
