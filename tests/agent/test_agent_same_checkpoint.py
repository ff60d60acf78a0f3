"""A script's checkpoint that it writes once more, or leaves where it was, stays one checkpoint."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from armada_agent import paths
from armada_agent.outbox.checkpoint_watch import CheckpointWatch
from armada_agent.outbox.finishing import Outbox
from armada_agent.records.journal import Journal


@pytest.fixture
def run(tmp_path: Path) -> paths.RunPaths:
    place = paths.RunPaths(str(tmp_path), "run-1")
    for folder in (place.work, place.outbox):
        Path(folder).mkdir(parents=True)
    return place


def write(run: paths.RunPaths, step: int, text: str, moment: float = 5.0) -> Path:
    file = Path(run.work, f"out/step-{step}/w")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    os.utime(file, (moment, moment))  # long quiet
    return file


def attempt(run: paths.RunPaths, number: int, *, begins: bool = False) -> CheckpointWatch:
    """Let the supervisor of an attempt take what lies there."""
    journal = Journal(run, number)
    journal.state["attempt"] = number
    watcher = CheckpointWatch(run, {"pattern": "out/step-*", "quiet_s": 0}, journal)
    if begins:
        watcher.begin()
    watcher.finish(is_trusted=True)
    Outbox(run, {"keep": 99, "disk_floor_bytes": 0}, journal, watcher).look()
    return watcher


def test_a_checkpoint_that_a_resumed_script_writes_again_with_the_same_bytes_is_the_same(run: paths.RunPaths) -> None:
    write(run, 1, "one")
    write(run, 2, "two")
    attempt(run, 1)
    first = set(run.checkpoints())
    shutil.rmtree(Path(run.work, "out"))
    write(run, 1, "one", 9.0)
    write(run, 2, "other", 9.0)
    attempt(run, 2)
    assert first < set(run.checkpoints())
    assert len(run.checkpoints()) == 3  # step 2 has other bytes: it is another checkpoint


def test_one_that_home_had_deleted_there_comes_back_under_its_name(run: paths.RunPaths) -> None:
    write(run, 1, "one")
    attempt(run, 1)
    (digest,) = run.checkpoints()
    shutil.rmtree(run.checkpoint(digest))
    shutil.rmtree(Path(run.work, "out"))
    write(run, 1, "one", 9.0)
    attempt(run, 2)
    assert run.checkpoints() == [digest]


def test_what_the_job_does_to_its_second_copy_takes_the_first_from_nobody(run: paths.RunPaths) -> None:
    write(run, 1, "one")
    attempt(run, 1)
    (digest,) = run.checkpoints()
    shutil.rmtree(Path(run.work, "out"))
    second = write(run, 1, "one", 9.0)
    watcher = attempt(run, 2)
    second.write_text("written over in place")
    watcher.look()
    assert Path(run.checkpoint(digest), "w").read_text() == "one"


def test_of_many_checkpoints_left_where_they_were_written_none_is_taken_again(
    run: paths.RunPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("armada_agent.outbox.checkpoint_watch._REMEMBERED", 3)
    for step in range(1, 6):
        write(run, step, str(step))
    watcher = attempt(run, 1)
    before = run.checkpoints()
    assert len(before) == 5
    watcher.look()
    watcher.look()
    assert run.announced() == []
    attempt(run, 2, begins=True)
    assert run.checkpoints() == before
