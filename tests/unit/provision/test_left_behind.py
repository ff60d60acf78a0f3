"""Files that a job names and that do not travel are named before the launch."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from armada.config.experiments import load_experiment
from armada.errors import ProvisionFailed
from armada.provision import code
from armada.provision.code import take_snapshot
from armada.provision.left_behind import LeftBehind, find_left_behind

SCRIPT = """
import json
rows = open("data/train.jsonl").read()
other = open('./data/eval.jsonl')
save_to = "out/last"
kept = "kept.txt"
broken = "../secret"
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    for name in ("data/train.jsonl", "data/eval.jsonl", "weights.bin", "out/last", "kept.txt", "my-ckpt/step-1/w"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("x")
    (tmp_path / "secret").write_text("x")
    (folder / "train.py").write_text(SCRIPT)
    (folder / ".gitignore").write_text("data/\n*.bin\nout/\nmy-ckpt/\n")
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    return folder


def left(project: Path, given: tuple[str, ...] = (), **settings: Any) -> list[LeftBehind]:
    file = project.parent / "exp.yaml"
    file.write_text(json.dumps({"name": "x", "task": "script", "script": "train.py", "code": "project", **settings}))
    experiment = load_experiment(file)
    return list(find_left_behind(experiment, take_snapshot(project), given))


def test_the_constants_of_sources_and_the_arguments_are_looked_at(project: Path) -> None:
    found = left(project, arguments=["--weights=weights.bin", "--steps", "5"])
    assert found == [
        LeftBehind("data/eval.jsonl", "train.py"),
        LeftBehind("data/train.jsonl", "train.py"),
        LeftBehind("weights.bin", "`arguments`"),
    ]


def test_what_the_job_is_given_or_writes_is_not_missing(project: Path) -> None:
    settings = {"arguments": ["weights.bin", "my-ckpt"], "checkpoint": {"pattern": "my-ckpt/step-*"}}
    assert left(project, ("data", "weights.bin"), **settings) == []


@pytest.mark.parametrize("is_checkout", [True, False])
def test_armadas_own_folders_below_a_project_do_not_travel(tmp_path: Path, is_checkout: bool) -> None:
    for name in ("train.py", "home/state/armada.db", "home/config/hosts.yaml", "home/kept.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    if is_checkout:
        subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    own = (tmp_path / "home" / "state", tmp_path / "home" / "config")
    snapshot = take_snapshot(tmp_path, without=own)
    assert set(snapshot.content.files) == {"train.py", "home/kept.py"}
    assert take_snapshot(tmp_path / "home" / "state", without=own).content.files  # nobody means that, but it is theirs


@pytest.mark.parametrize(
    "source", ["def broken(", "\0", "x = " + "(" * 5000, '# -*- coding: nonsense -*-\n"weights.bin"']
)
def test_a_source_that_cannot_be_read_is_passed_over(project: Path, source: str) -> None:
    (project / "other.py").write_text(source)
    assert [each.path for each in left(project)] == ["data/eval.jsonl", "data/train.jsonl"]


def test_code_that_is_too_large_names_the_ten_largest(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(code, "LARGE_BYTES", 2000)
    for number in range(12):
        (project / f"part-{number:02}").write_bytes(b"x" * (200 + number))
    with pytest.raises(ProvisionFailed, match=r"The largest: part-11 \(211 B\), part-10") as refused:
        take_snapshot(project)
    assert "part-02" in str(refused.value)
    assert "part-01" not in str(refused.value)
