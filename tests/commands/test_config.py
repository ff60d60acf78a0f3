"""`armada config show | schema`: every value, and the line behind it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Armada

TREE = Path(__file__).parents[2]

EXPERIMENT = """\
name: mine
task: sft
model: {tiny: {}}
data: {train: [{path: a.jsonl}]}
train:
  global_batch_size: 16
  max_steps: 10
  learning_rate: 1.0e-3
checkpoint:
  keep_last: 5
secrets: [MY_TOKEN, NO_TOKEN]
env: {BOTH: experiment}
"""
PROFILE = """\
extends: cpu
train:
  micro_batch_size: 2
env: {BOTH: profile, ONE: profile}
"""
HOSTS = """\
bwlimit: 50M
hosts:
  desk:
    ssh: me@desk
    profile: mine
"""


@pytest.fixture
def files(armada: Armada) -> Path:
    config = armada.folder / "home" / "config"
    (config / "profiles").mkdir(parents=True)
    (config / "profiles" / "mine.yaml").write_text(PROFILE)
    (config / "hosts.yaml").write_text(HOSTS)
    armada.write("a.jsonl", "{}\n")
    armada.write("exp.yaml", EXPERIMENT)
    return config


def shown(armada: Armada, *arguments: str) -> dict[str, dict[str, tuple[Any, str]]]:
    sections = armada.json("config", "show", *arguments)
    assert sections.pop("format") == 1
    return {
        name: {key: (said["value"], said["origin"]) for key, said in section["values"].items()}
        for name, section in sections.items()
    }


def test_every_value_names_what_said_it(armada: Armada, files: Path) -> None:
    armada.env["MY_TOKEN"] = "sesame-open"
    exp = armada.folder / "exp.yaml"
    found = shown(armada, str(exp), "--host", "desk", "--set", "train.seed=7", "--gpus", "0")
    experiment, profile, host = found["experiment"], found["profile"], found["host"]
    assert experiment["train.learning_rate"] == (0.001, f"{exp}:8")
    assert experiment["train.seed"] == (7, "--set train.seed=7")
    assert experiment["resources.gpus"] == (0, "--gpus 0")
    assert experiment["checkpoint.keep_last"] == (5, f"{exp}:10")
    assert experiment["checkpoint.every_steps"] == (100, "default")
    assert experiment["data.train[0].path"] == (str(armada.folder / "a.jsonl"), f"{exp}:4")
    assert profile["name"] == ("mine", f"{files / 'hosts.yaml'}:5")
    assert profile["train.micro_batch_size"] == (2, f"{files / 'profiles' / 'mine.yaml'}:3")
    assert profile["train.precision"][1].startswith(f"{TREE / 'profiles' / 'cpu.yaml'}:")
    assert host["ssh"] == ("me@desk", f"{files / 'hosts.yaml'}:4")
    assert host["scheduler"] == ("direct", "default")
    assert found["home"]["config"] == (str(files), "$ARMADA_HOME")
    assert found["home"]["bwlimit_bytes_per_s"] == (50e6, f"{files / 'hosts.yaml'}:1")
    assert found["home"]["daemon"] == (False, "$ARMADA_NO_DAEMON")
    together = found["together"]
    assert together["micro_batch_size"] == (2, f"{files / 'profiles' / 'mine.yaml'}:3")
    assert together["env.BOTH"] == ("experiment", f"{exp}:12")
    assert together["env.ONE"] == ("profile", f"{files / 'profiles' / 'mine.yaml'}:4")
    assert together["secrets"][0] == {"MY_TOKEN": "set", "NO_TOKEN": "not set"}
    assert "sesame" not in json.dumps(found)


def test_the_command_line_wins_and_a_project_adds_hosts(armada: Armada, files: Path) -> None:
    armada.write("armada.yaml", "hosts:\n  ours: {ssh: other@desk}\n  desk: {ssh: other@desk}\n")
    assert shown(armada, "exp.yaml", "--host", "desk")["host"]["ssh"][1].startswith(str(armada.folder / "home"))
    found = shown(armada, "exp.yaml", "--host", "ours", "--profile", "cpu", "--set", "train.micro_batch_size=4")
    assert found["host"]["ssh"] == ("other@desk", f"{armada.folder / 'armada.yaml'}:2")
    assert found["host"]["profile"] == (None, "default")
    assert found["profile"]["name"] == ("cpu", "--profile cpu")
    assert found["together"]["micro_batch_size"] == (4, "--set train.micro_batch_size=4")


def test_a_projects_settings_for_a_host_of_yours_count_with_their_lines_and_are_said(
    armada: Armada, files: Path
) -> None:
    (files / "hosts.yaml").write_text(
        "hosts:\n  local:\n    price_per_hour: 12\n    budget: 100 USD\n  desk: {ssh: me@desk, profile: mine}\n"
    )
    armada.write(
        "armada.yaml", "hosts:\n  local: {profile: cpu, price_per_hour: 3, budget: 50 USD}\n  desk: {ssh: me@desk}\n"
    )
    found, project = shown(armada, "exp.yaml", "--host", "local")["host"], f"{armada.folder / 'armada.yaml'}:2"
    assert (found["profile"], found["budget"]) == (("cpu", project), ("50 USD", project))
    assert found["price_per_hour"] == (12.0, f"{files / 'hosts.yaml'}:3")
    counts = f"armada: local: {project} counts here, not {files / 'hosts.yaml'} (but for `price_per_hour`); what differs: `budget`, "
    for words in (
        ("launch", "--host", "local", "quickstart", "--dry-run"),
        ("hosts", "check", "local"),
        ("hosts", "ls"),
    ):
        answer = armada.run(*words)
        assert answer.returncode == 0, answer.stderr
        assert f"{counts}`price_per_hour`, `profile`. The daemon goes by the latter" in answer.stderr
        assert ("armada: desk: " in answer.stderr) == (words[-1] == "ls")


def test_what_the_file_says_is_what_a_launch_plans(armada: Armada, files: Path) -> None:
    """The quickstart on this machine: the values shown are those of the plan."""
    plan = armada.json("launch", "--host", "local", "quickstart", "--dry-run")["spec"]["experiment"]
    found = shown(armada, "quickstart", "--host", "local")
    for key, (value, _) in found["experiment"].items():
        if "[" in key or "." not in key:
            continue
        planned = plan
        for part in key.split("."):
            planned = planned[part]
        assert planned == value, key


def test_a_person_reads_lines(armada: Armada, files: Path) -> None:
    with_origins = armada.run("config", "show", "exp.yaml", "--origin").stdout
    (line,) = [line for line in with_origins.splitlines() if "learning_rate" in line]
    assert line.split() == ["train.learning_rate", "0.001", "exp.yaml:8"]  # as it was typed
    assert "exp.yaml:8" not in armada.run("config", "show", "exp.yaml").stdout


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ([], 2, "name what to show:"),
        (["--host", "dsek"], 7, "did you mean desk?"),
        (["--profile", "nothing"], 7, "there is no profile"),
        (["missing.yaml"], 2, "missing.yaml"),
        (["--host", "desk", "--set", "a=1"], 2, "no experiment is given"),
        (["exp.yaml", "--set", "train.sed=1"], 2, "did you mean `train.seed`?"),
    ],
)
def test_what_cannot_be_shown_is_said(armada: Armada, files: Path, arguments: list[str], code: int, said: str) -> None:
    answer = armada.run("config", "show", *arguments)
    assert (answer.returncode, said in answer.stderr) == (code, True), answer.stderr


def test_a_schema_is_printed(armada: Armada) -> None:
    assert json.loads(armada.run("config", "schema", "hosts").stdout)["title"] == "armada: hosts.yaml"
    assert armada.run("config", "schema", "nothing").returncode == 2


def test_edit_prints_the_difference_and_writes_a_new_file_alone(armada: Armada, files: Path) -> None:
    file = files.parents[1] / "exp.yaml"
    before = file.read_text()
    wanted = ("config", "edit", "exp.yaml", "--set", "train.learning_rate=2e-3")
    printed = armada.run(*wanted).stdout
    assert "-  learning_rate: 1.0e-3" in printed
    assert "+  learning_rate: 2e-3" in printed
    assert file.read_text() == before
    assert armada.json(*wanted, "--to", "new.yaml")["to"] == "new.yaml"
    assert (armada.folder / "new.yaml").read_text() == before.replace("1.0e-3", "2e-3")
    refused = armada.run(*wanted, "--to", "new.yaml")
    assert (refused.returncode, "new.yaml exists" in refused.stderr) == (2, True)
    more = ("config", "edit", "exp.yaml", "--gpus", "0", "--to", "new.yaml", "--overwrite")
    assert armada.run(*more).returncode == 0
    assert "resources:\n  gpus: 0" in (armada.folder / "new.yaml").read_text()


def test_edit_shows_the_difference_also_if_the_result_is_wrong(armada: Armada, files: Path) -> None:
    answer = armada.run("config", "edit", str(files.parents[1] / "exp.yaml"), "--set", "train.learning_rate=x")
    assert "+  learning_rate: x" in answer.stdout
    assert (answer.returncode, "`train.learning_rate` must be a number" in answer.stderr) == (2, True)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--set", "train.seed=x"), "must be a whole number, not 'x'"),
        (("--set", "trian.seed=1"), "unknown key `trian`"),
        (("--to", "nowhere/x.yaml"), "there is no folder nowhere"),
        (("--to", "."), "is not the name of a file"),
        (("--to", ""), "is not the name of a file"),
        (("--overwrite",), "--overwrite goes with --to"),
        (("--to", "other/x.yaml"), "there is no file"),
    ],
)
def test_edit_refuses_what_a_launch_would(armada: Armada, files: Path, words: tuple[str, ...], said: str) -> None:
    (armada.folder / "other").mkdir()
    before = sorted(armada.folder.rglob("*.yaml"))
    answer = armada.run("config", "edit", str(files.parents[1] / "exp.yaml"), *words)
    assert (answer.returncode, said in answer.stderr) == (2, True), answer.stderr
    assert sorted(armada.folder.rglob("*.yaml")) == before
