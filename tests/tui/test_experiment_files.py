"""Tests for the list of experiments that Launch offers: only files that are some, near the folder of the dashboard."""

from __future__ import annotations

import math
import os
from pathlib import Path

import pytest

from armada.tui import experiment_files
from armada.tui.experiment_files import experiments


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(experiment_files, "PATIENCE_S", math.inf)
    return tmp_path


def write(path: Path, text: str = "name: a\ntask: sft\n") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_experiments_are_here_and_up_to_two_folders_below(here: Path) -> None:
    for name in ("own.yml", "a/mine.yaml", "examples/arc/arc.yaml", "one/two/three/deep.yaml", "notes.txt"):
        write(here / name)
    assert experiments() == ["quickstart", "own.yml", "a/mine.yaml", "examples/arc/arc.yaml"]


def test_what_is_no_experiment_is_not_offered(here: Path) -> None:
    write(here / "profile.yaml", "extends: _gpu\ngpus:\n  task: none\n")
    write(here / "site.yml", "site_name: armada\n")
    write(here / ".hidden.yaml")
    write(here / ".git/task.yaml")
    write(here / "node_modules/task.yaml")
    write(here / "folder.yaml/inner.txt")
    write(here / "binary.yaml", "\0\0")
    write(here / "script.yaml", "name: b\nscript: train.py\n")
    assert experiments() == ["quickstart", "script.yaml"]


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "x", "task": "command"}',
        '{\n  "name": "x",\n  "task": "command"\n}',
        "{name: x, task: sft}",
        '\ufeff"task": sft\n',
        "# an experiment\r\nname: x\r\ntask : sft\r\n",
    ],
)
def test_an_experiment_may_be_json_or_have_quoted_keys(here: Path, text: str) -> None:
    write(here / "exp.yaml", text)
    assert experiments() == ["quickstart", "exp.yaml"]


def test_pipes_links_and_closed_folders_stop_nothing(here: Path) -> None:
    write(here / "real.yaml")
    os.mkfifo(here / "pipe.yaml")
    (here / "broken.yaml").symlink_to("nowhere")
    (here / "link.yaml").symlink_to("real.yaml")
    (here / "loop").symlink_to(here)
    closed = here / "closed"
    write(closed / "exp.yaml")
    closed.chmod(0)
    try:
        assert set(experiments()) >= {"quickstart", "real.yaml", "link.yaml"}
        assert "pipe.yaml" not in experiments()
        assert not [name for name in experiments() if name.startswith("loop")]
    finally:
        closed.chmod(0o700)


def test_a_crowded_folder_is_read_in_part(here: Path) -> None:
    for number in range(300):
        write(here / f"exp-{number:03}.yaml")
    assert len(experiments()) == 201


def test_a_slow_disk_holds_nobody_up(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(here / "exp.yaml")
    monkeypatch.setattr(experiment_files, "PATIENCE_S", -1.0)
    assert experiments() == ["quickstart"]
