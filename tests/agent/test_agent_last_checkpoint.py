"""A script's last checkpoint on a disk that does not take it when the script ends: it is waited for, or said to be missing."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from armada_agent.outbox.checkpoint_watch import CheckpointWatch
from armada_agent.outbox.watch_record import count_failed
from armada_agent.paths import RunPaths
from armada_agent.records.journal import Journal

from tests.agent.batch_worker import Worker
from tests.agent.refusing_disk import RefusingDisk
from tests.agent.test_agent_orphans import steps, sync_look
from tests.waiting import eventually

WATCH: dict[str, Any] = {"checkpoints": {"pattern": "out/step-*", "quiet_s": 600.0}, "resume": []}
SAVES = (
    "mkdir -p out/step-5 out/step-7; echo five > out/step-5/w; echo seven > out/step-7/w; touch up;"
    "while [ ! -e go ]; do sleep 0.05; done; exit 0"
)
SETTINGS = {"pattern": "out/step-*", "quiet_s": 30.0}


def test_a_full_disk_delays_the_last_checkpoint_and_the_end_of_the_run(worker: Callable[[str], Worker]) -> None:
    there = worker("direct")
    disk = RefusingDisk(there)
    there.hand_over("l-1", SAVES, watch=WATCH)
    folder = there.host.folder("l-1")
    there.begin("l-1")
    eventually((folder / "work/up").exists)
    disk.refuse(folder / "outbox", errno.ENOSPC, ("open", "mkdir", "link"))
    (folder / "work/go").touch()
    disk.await_refusals(4)
    assert there.host.state("l-1")["state"] == "running"
    disk.answer()
    assert there.host.await_end("l-1")["state"] == "succeeded"
    assert steps(there.host, "l-1") == [5, 7]


def test_one_that_cannot_be_read_is_named_counts_as_left_and_is_taken_once_it_can_be(
    worker: Callable[[str], Worker],
) -> None:
    there = worker("direct")
    disk = RefusingDisk(there)
    there.hand_over("l-2", SAVES, watch=WATCH)
    folder = there.host.folder("l-2")
    there.begin("l-2")
    eventually((folder / "work/up").exists)
    disk.refuse(folder / "work/out/step-5", errno.EIO, ("open", "link"))
    (folder / "work/go").touch()
    assert there.host.await_end("l-2")["state"] == "succeeded"
    assert steps(there.host, "l-2") == [7]
    said = [event.get("message") for event in there.host.events("l-2") if event["kind"] == "finding"]
    assert [words for words in said if "out/step-5 cannot be taken" in str(words)]
    eventually(lambda: there.host.look("l-2")["evidence"]["supervisor"] == "dead")
    looked = sync_look(there.host, "l-2")
    assert (looked["announced"], looked["finishing"], looked["untaken"]) == (1, 0, 1)
    os.utime(folder / "harvest.json", (1.0, 1.0))  # nobody has tried for a while
    eventually(lambda: sync_look(there.host, "l-2")["untaken"] == 0)
    assert steps(there.host, "l-2") == [5, 7]


def test_one_of_which_a_file_cannot_be_seen_is_not_taken_without_it(worker: Callable[[str], Worker]) -> None:
    there = worker("direct")
    disk = RefusingDisk(there)
    there.hand_over("l-4", SAVES.replace("> out/step-7/w", "> out/step-7/w; echo o > out/step-7/o"), watch=WATCH)
    folder = there.host.folder("l-4")
    there.begin("l-4")
    eventually((folder / "work/up").exists)
    disk.refuse(folder / "work/out/step-7/o", errno.EIO, ("lstat",))
    (folder / "work/go").touch()
    assert there.host.await_end("l-4")["state"] == "succeeded"
    assert steps(there.host, "l-4") == [5]
    os.utime(folder / "harvest.json", (1.0, 1.0))
    eventually(lambda: sync_look(there.host, "l-4")["untaken"] == 0)
    (taken,) = [each for each in there.host.look("l-4")["outbox"] if each["step"] == 7]
    assert taken["file_count"] == 2


def test_what_was_taken_before_the_disk_was_full_is_not_taken_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = RunPaths(str(tmp_path), "l-3")
    for name in ("outbox", "attempts/1"):
        Path(paths.folder, name).mkdir(parents=True)
    Path(paths.work).mkdir()
    watch = CheckpointWatch(paths, SETTINGS, Journal(paths, 1))
    watch.begin()
    for step in (1, 2):
        Path(paths.work, f"out/step-{step}").mkdir(parents=True)
        Path(paths.work, f"out/step-{step}/w").write_text(str(step))
    real = os.makedirs

    def refuse(path: str, *words: Any, **more: Any) -> None:
        if ".part-2-" in path:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        real(path, *words, **more)

    with monkeypatch.context() as patch:
        patch.setattr(os, "makedirs", refuse)
        for _ in range(2):
            with pytest.raises(OSError, match="No space"):
                watch.finish(is_trusted=True)
    watch.finish(is_trusted=True)
    assert [json.loads(Path(each, ".announce.json").read_text())["step"] for each in paths.announced()] == [1, 2]
    assert count_failed(paths) == 0
