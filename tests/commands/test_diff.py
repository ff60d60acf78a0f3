"""`armada diff`: what two launches sent, as it was sent, also after the files at home have changed."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from armada.records.launch_record import KeptEnvironment, LaunchRecord, write_record
from tests.conftest import Armada
from tests.published_run import opened, record, sft_plan


def git(folder: Path, *words: str) -> None:
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def project(armada: Armada) -> Path:
    """A git project with data that git ignores."""
    folder = armada.folder / "project"
    folder.mkdir()
    (folder / "train.py").write_text("lr = 1\nprint(lr)\n")
    (folder / "weights.bin").write_bytes(b"\0\1")
    (folder / ".gitignore").write_text("data.txt\n")
    (folder / "data.txt").write_text("a\n")
    git(folder, "init", "-q")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "first")
    return folder


def launch(armada: Armada, seed: str) -> str:
    experiment = {
        "name": "test", "task": "command", "command": ["python3", "train.py"], "code": "project",
        "data": {"train": [{"path": "project/data.txt"}]}, "env": {"SEED": seed},
    }  # fmt: skip
    armada.write("exp.yaml", json.dumps(experiment))
    found: str = armada.json("launch", "--host", "local", "exp.yaml")["run_id"]
    return found


@pytest.fixture
def pair(armada: Armada, project: Path) -> tuple[str, str]:
    """Two launches; before the second one, code, data and a setting were changed, and nothing committed."""
    one = launch(armada, "1")
    (project / "train.py").write_text("lr = 2\nprint(lr)\n")
    (project / "weights.bin").write_bytes(b"\0\2")
    (project / "new.py").write_text("x = '\x1b[2J\u202e'\n")
    (project / "data.txt").write_text("a\nb\n")
    two = launch(armada, "2")
    (project / "train.py").write_text("lr = 3\n")
    return one, two


def test_a_run_has_the_name_that_it_was_given(armada: Armada) -> None:
    armada.write("exp.yaml", "name: toy\ntask: command\ncommand: ['true']\n")
    pair = [
        armada.json("launch", "--host", "local", "exp.yaml", *words)["run_id"] for words in ((), ("--name", "given"))
    ]
    expected = {"key": "name", "values": ["toy", "given"]}
    assert expected in armada.json("diff", *pair)["settings"]
    assert "\ncode\n  no difference\n" in armada.run("diff", *pair).stdout
    assert expected in armada.json("compare", *pair)["settings"]
    assert armada.run("report", *pair, "--html", "report.html").returncode == 0
    page = (armada.folder / "report.html").read_text()
    assert "<th>name</th><td>toy</td><td>given</td>" in page
    assert "name: given" in page


def test_settings_code_and_data_are_told_apart(armada: Armada, pair: tuple[str, str]) -> None:
    found = armada.json("diff", *pair)
    assert found["recorded"] == [True, True]
    assert [each["dirty"] for each in found["projects"]] == [False, True]
    assert {"key": "env.SEED", "values": ["1", "2"]} in found["settings"]
    code = {each["path"]: each for each in found["code"]}
    assert "-lr = 1\n+lr = 2\n" in code["train.py"]["diff"]
    assert (code["weights.bin"]["diff"], code["weights.bin"]["why"]) == (None, "binary, 2 B")
    assert code["new.py"]["change"] == "added"
    assert [(each["name"], each["before"]["size_bytes"], each["after"]["size_bytes"]) for each in found["data"]] == [
        ("data.txt", 2, 4)
    ]
    assert found["packages"] is None


def test_a_pipe_gets_no_colours_and_nothing_that_a_terminal_obeys(armada: Armada, pair: tuple[str, str]) -> None:
    answer = armada.run("diff", *pair)
    assert answer.returncode == 0, answer.stderr
    assert "-lr = 1\n+lr = 2\n" in answer.stdout
    assert "with uncommitted changes" in answer.stdout
    assert "neither run has an environment that armada built" in answer.stdout
    assert not {"\x1b", "\u202e", "\r"} & set(answer.stdout)


def test_long_settings_get_lines_of_their_own(armada: Armada) -> None:
    with opened(armada.folder / "home") as (_, database):
        for name in ("one", "two"):
            record(database, name, {"format": 1, "task": "command", "experiment": {"arguments": [name] * 40}})
    shown = armada.run("diff", "one", "two").stdout
    assert '  arguments\n    - ["one", ' in shown
    assert '\n    + ["two", ' in shown


def test_a_terminal_gets_colours(armada: Armada, pair: tuple[str, str]) -> None:
    ours, theirs = pty.openpty()
    env = {**armada.env, "TERM": "xterm", "LANG": "C.UTF-8"}
    env.pop("NO_COLOR", None)
    with subprocess.Popen([sys.executable, "-m", "armada", "diff", *pair], stdout=theirs, env=env) as process:
        os.close(theirs)
        shown = b""
        try:
            while piece := os.read(ours, 4096):
                shown += piece
        except OSError:  # the other side of a terminal is closed
            pass
        assert process.wait() == 0
    os.close(ours)
    assert b"\x1b[31m-lr = 1\x1b[0m" in shown
    assert b"\x1b[2J" not in shown


def test_the_same_run_twice_has_no_difference(armada: Armada, pair: tuple[str, str]) -> None:
    found = armada.json("diff", pair[0], pair[0])
    assert (found["settings"], found["code"], found["packages"], found["data"]) == ([], [], None, [])


def test_a_run_without_a_record_says_so(armada: Armada, pair: tuple[str, str]) -> None:
    with opened(armada.folder / "home") as (_, database):
        record(database, "old-run", sft_plan("old-run"))
    found = armada.json("diff", pair[0], "old-run")
    assert (found["recorded"], found["code"], found["packages"], found["data"]) == ([True, False], None, None, None)
    assert "not recorded: old-run" in armada.run("diff", pair[0], "old-run").stdout


def test_packages_of_one_image_are_equal_and_those_of_others_are_not_known(armada: Armada) -> None:
    environment = KeptEnvironment("k", "3.12", installed="torch==2.0\nnumpy==1.0\n")
    newer = KeptEnvironment("l", "3.12", installed="torch==2.1\nnumpy==1.0\npeft==1\n")
    known = {
        "image-1": ({"digest": "sha256:a"}, None),
        "image-2": ({"digest": "sha256:a"}, None),
        "image-3": ({"digest": "sha256:b"}, None),
        "built-1": (None, environment),
        "built-2": (None, newer),
    }
    with opened(armada.folder / "home") as (home, database):
        for name, (container, built) in known.items():
            record(database, name, {**sft_plan(name), "container": container})
            write_record(home, name, LaunchRecord("1", environment=built))
    assert armada.json("diff", "image-1", "image-2")["packages"] == []
    assert armada.json("diff", "image-1", "image-3")["packages"] is None
    assert armada.json("diff", "image-1", "built-1")["packages"] is None
    found = armada.json("diff", "built-1", "built-2")
    assert found["packages_from"] == "installed"
    assert [tuple(each.values()) for each in found["packages"]] == [("peft", None, "1"), ("torch", "2.0", "2.1")]
    assert "  torch 2.0 → 2.1\n" in armada.run("diff", "built-1", "built-2").stdout


def test_removing_a_run_removes_its_record(armada: Armada, pair: tuple[str, str]) -> None:
    kept = armada.folder / "home" / "state" / "runs" / pair[0] / "launch"
    assert {path.name for path in kept.iterdir()} == {"record.json", "code.tar.gz"}
    assert all(path.stat().st_mode & 0o077 == 0 for path in [kept, *kept.iterdir()])
    armada.await_end(pair[0])
    assert armada.run("rm", pair[0], "--force").returncode == 0  # nothing of it is home
    assert not kept.parent.exists()
