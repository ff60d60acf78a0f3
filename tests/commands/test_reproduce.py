"""`armada reproduce`: a folder that gives the same plan, or says what does not."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from armada.store import runs
from tests.commands.test_diff import git
from tests.conftest import Armada
from tests.published_run import opened, record, sft_plan


@pytest.fixture
def project(armada: Armada) -> Path:
    """A git project with uncommitted changes, an ignored data file, and a tracked file in a folder that is usually left out."""
    folder = armada.folder / "project"
    (folder / "venv").mkdir(parents=True)
    (folder / "train.py").write_text("import sys\nprint('trained on', open('data/rows.txt').read())\n")
    (folder / "tool.sh").write_text("#!/bin/sh\n")
    (folder / "tool.sh").chmod(0o755)
    (folder / "venv" / "kept.py").write_text("x = 1\n")
    (folder / ".gitignore").write_text("data/\n*.log\n")
    git(folder, "init", "-q")
    git(folder, "add", "--force", ".")
    git(folder, "commit", "-qm", "first")
    (folder / "train.py").write_text((folder / "train.py").read_text() + "print('uncommitted')\n")
    (folder / "data").mkdir()
    (folder / "data" / "rows.txt").write_text("a\n")
    (folder / "big.log").write_text("ignored")
    return folder


def launch(armada: Armada, *words: str, **more: Any) -> str:
    experiment = {
        "name": "test", "task": "command", "command": ["python3", "train.py", "--lr", "1e-4"], "code": "project",
        "data": {"train": [{"path": "project/data/rows.txt"}]}, "env": {"SEED": "1"}, **more,
    }  # fmt: skip
    armada.write("exp.yaml", "# why\n" + json.dumps(experiment))
    found: str = armada.json("launch", "--host", "local", "exp.yaml", *words)["run_id"]
    armada.await_end(found)
    return found


def test_the_plan_is_the_same_after_the_project_has_changed(armada: Armada, project: Path) -> None:
    run_id = launch(armada, "--set", "env.SEED=7", "--name", "other")
    (project / "train.py").write_text("raise SystemExit(1)\n")
    (project / "new.py").write_text("")
    found = armada.json("reproduce", run_id, "--to", "again")
    assert found["plan_differs"] == []
    assert found["plan_error"] is None
    assert found["not_reproduced"] == []
    again = armada.folder / "again"
    assert (again / "code/train.py").read_text().endswith("print('uncommitted')\n")
    assert (again / "code/tool.sh").stat().st_mode & 0o777 == 0o755
    assert (again / "experiment.as-written.yaml").read_text().startswith("# why\n")
    assert "with uncommitted changes" in (again / "README.md").read_text()
    assert not (again / "code/new.py").exists()
    repeated = json.loads(
        subprocess.run(
            [*armada_words(), *found["command"][1:], "--json"],
            cwd=again, env=armada.env, capture_output=True, check=True, text=True,
        ).stdout
    )  # fmt: skip
    armada.await_end(repeated["run_id"])
    assert (armada.local_runs / repeated["run_id"] / "output.log").read_text() == "trained on a\n\nuncommitted\n"
    difference = armada.json("diff", run_id, repeated["run_id"])
    assert (difference["code"], difference["packages"], difference["data"]) == ([], None, [])


def test_a_cell_of_a_sweep_has_the_same_plan_alone(armada: Armada) -> None:
    grid = ("--grid", "env.SEED=1", "--grid", "env.RATE='1e-5'")
    sweep = armada.json("sweep", armada.command("true", name="cells"), "--host", "local", *grid)["sweep"]
    armada.await_end(f"{sweep}-001")
    found = armada.json("reproduce", f"{sweep}-001", "--to", "again")
    assert (found["plan_differs"], found["plan_error"]) == ([], None)


@pytest.mark.parametrize("exists", [False, True])
def test_only_the_owner_can_read_what_is_written(armada: Armada, project: Path, exists: bool) -> None:
    (project / ".env").write_text("API_KEY=hidden\n")
    (project / ".env").chmod(0o600)
    git(project, "add", "--force", ".env")
    run_id = launch(armada)
    again = armada.folder / "again"
    if exists:
        again.mkdir()
        again.chmod(0o755)
    assert armada.run("reproduce", run_id, "--to", "again", "--no-plan").returncode == 0
    assert (again / "code/.env").read_text() == "API_KEY=hidden\n"
    assert again.stat().st_mode & 0o777 == (0o755 if exists else 0o700)
    modes = {entry.name: entry.stat().st_mode & 0o777 for entry in again.iterdir()}
    assert modes.pop("code") == 0o700
    assert "experiment.yaml" in modes
    assert set(modes.values()) == {0o600}


def armada_words() -> list[str]:
    import sys

    return [sys.executable, "-m", "armada"]


def test_below_another_repository_the_same_files_are_sent(armada: Armada, project: Path) -> None:
    run_id = launch(armada)
    outer = armada.folder / "outer"
    outer.mkdir()
    git(outer, "init", "-q")
    (outer / ".gitignore").write_text("again/\n*.py\n")
    found = armada.json("reproduce", run_id, "--to", "outer/again")
    assert found["plan_differs"] == []


def test_changed_data_and_missing_code_are_named(armada: Armada, project: Path) -> None:
    run_id = launch(armada)
    (project / "data" / "rows.txt").write_text("b\n")
    record_file = armada.folder / "home/state/runs" / run_id / "launch/code.tar.gz"
    record_file.write_bytes(record_file.read_bytes()[:-40])
    found = armada.json("reproduce", run_id, "--to", "again", rc=3)
    keys = {each["key"] for each in found["plan_differs"]}
    assert "job.code" in keys
    assert any(key.startswith("job.data[0]") for key in keys)
    words = " ".join(found["not_reproduced"])
    assert "has changed: rows.txt" in words
    assert "were not kept" in words


def test_data_that_is_gone_is_named_and_the_folder_is_written_all_the_same(armada: Armada, project: Path) -> None:
    run_id = launch(armada)
    shutil.rmtree(project)
    answer = armada.run("reproduce", run_id, "--to", "again")
    assert answer.returncode == 2
    assert "the plan was not compared" in answer.stdout
    assert (armada.folder / "again/code/train.py").exists()
    assert armada.run("reproduce", run_id, "--to", "again2", "--no-plan").returncode == 0


def test_the_path_is_printed_without_steps_up(armada: Armada) -> None:
    with opened(armada.folder / "home") as (_, database):
        record(database, "old", sft_plan("old"))
    answer = armada.run("reproduce", "old", "--to", "elsewhere/../again", "--no-plan")
    again = armada.folder.resolve() / "again"
    assert answer.returncode == 0, answer.stderr
    assert f"cd {again} &&" in answer.stdout
    assert ".." not in answer.stdout
    assert (again / "experiment.yaml").exists()
    assert armada.json("reproduce", "old", "--to", "elsewhere/../again2", "--no-plan")["to"] == f"{again}2"


def test_a_run_without_a_record_says_what_is_not_known(armada: Armada) -> None:
    with opened(armada.folder / "home") as (_, database):
        record(database, "old", sft_plan("old"))
    found = armada.json("reproduce", "old", "--to", "again", "--no-plan")
    assert found["recorded"] is False
    words = " ".join(found["not_reproduced"])
    assert "were not recorded" in words
    assert "revision of the model" in words
    assert not (armada.folder / "again/code").exists()


def test_a_host_that_is_gone_leaves_the_folder(armada: Armada) -> None:
    plan = {
        "format": 1,
        "run_id": "old",
        "task": "command",
        "experiment": {"name": "x", "task": "command", "command": ["true"]},
    }
    with opened(armada.folder / "home") as (_, database):
        record(database, "old", plan, host="gone-1")
    found = armada.json("reproduce", "old", "--to", "again", rc=7)
    assert found["plan_error"]["kind"] == "NotFound"
    found = armada.json("reproduce", "old", "--to", "again2", "--host", "local", rc=3)
    assert "host" not in {each["key"] for each in found["plan_differs"]}


def test_nothing_is_overwritten(armada: Armada, project: Path) -> None:
    run_id = launch(armada)
    (armada.folder / "again").mkdir()
    (armada.folder / "again" / "mine").write_text("x")
    assert armada.run("reproduce", run_id, "--to", "again", "--no-plan").returncode == 8
    assert [path.name for path in (armada.folder / "again").iterdir()] == ["mine"]
    assert armada.run("reproduce", run_id, "--to", "home/state/x", "--no-plan").returncode == 2


@pytest.mark.parametrize(
    ("plan", "task", "said"),
    [
        ({"task": "merge"}, "merge", "is a merge"),
        ({"task": "command", "experiment": []}, "command", "nothing is recorded"),
    ],
)
def test_a_run_without_an_experiment_is_refused(armada: Armada, plan: dict[str, Any], task: str, said: str) -> None:
    with opened(armada.folder / "home") as (_, database):
        record(database, "m", {**plan, "name": "m"})
    answer = armada.run("reproduce", "m", "--to", "again")
    assert answer.returncode == 3
    assert said in answer.stderr
    assert not (armada.folder / "again").exists()


def test_data_that_is_called_like_a_file_of_the_folder_is_not_written_to(armada: Armada) -> None:
    names = ["README.md", "experiment.yaml", "requirements.lock", "code", "data.txt"]
    for name in names:
        (armada.folder / name).write_text(f"my {name}")
    data = [{"path": str(armada.folder / name)} for name in names]
    plan = {"format": 1, "name": "n", "task": "command", "experiment": {"name": "n", "data": {"train": data}}}
    with opened(armada.folder / "home") as (_, database):
        origin = str(armada.folder / "exp.yaml")
        runs.insert(database, run_id="r", name="n", host="local", task="command", experiment=origin, spec=plan)
    assert armada.run("reproduce", "r", "--to", "again", "--no-plan").returncode == 0
    assert {name: (armada.folder / name).read_text() for name in names} == {name: f"my {name}" for name in names}
    assert (armada.folder / "again/data.txt").read_text() == "my data.txt"
    assert "Launch it again" in (armada.folder / "again/README.md").read_text()


def test_hostile_words_of_a_plan_stay_words(armada: Armada) -> None:
    hostile = "x\x1b[2J\n- injected: 1"
    experiment = {"name": hostile, "task": "command", "command": [hostile, "$(touch taken)"], "data": [1], "code": 7}
    plan = {
        "format": 1,
        "name": "n",
        "task": "command",
        "profile": 3,
        "experiment": experiment,
        "job": {"secrets": "x", "code": 9},
    }
    with opened(armada.folder / "home") as (_, database):
        record(database, "h", plan)
    answer = armada.run("reproduce", "h", "--to", "again", "--no-plan")
    assert answer.returncode == 0, answer.stderr
    assert "\x1b" not in answer.stdout + (armada.folder / "again/README.md").read_text()
    from ruamel.yaml import YAML

    again = YAML(typ="safe").load((armada.folder / "again/experiment.yaml").read_text())
    assert again["command"] == experiment["command"]
