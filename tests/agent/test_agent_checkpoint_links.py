"""Checkpoints that are links, or have links in them: what these lead to comes home, if it is the run's own."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from armada_agent.outbox.checkpoint_watch import CheckpointWatch
from armada_agent.outbox.finishing import publish
from armada_agent.outbox.resumable import choose
from armada_agent.outbox.watch_record import find_outside
from armada_agent.paths import RunPaths
from armada_agent.records.journal import Journal

from tests.agent.conversation import Host, check
from tests.agent.test_agent_checkpoint_watch import content, findings, watch

# Made elsewhere and moved, as no time passes here before a checkpoint counts as quiet.
LIGHTNING = "mkdir tmp; echo 3 > tmp/epoch=3.ckpt; ln -s epoch=3.ckpt tmp/last.ckpt; mv tmp out"
BEST = (
    "mkdir -p tmp/checkpoint-500; echo w > tmp/checkpoint-500/w; ln -s checkpoint-500 tmp/checkpoint-best; mv tmp out"
)
HUB = (
    "mkdir -p tmp/blobs tmp/snapshots/step-7/onnx; echo w > tmp/blobs/aa; echo c > tmp/blobs/bb;"
    "cd tmp/snapshots/step-7; ln -s ../../blobs/aa model.safetensors; ln -s ../../../blobs/bb onnx/config.json;"
    "cd ../../..; mv tmp hub"
)


class Job:
    """What a job would write is written by the test, and each look is the test's."""

    def __init__(self, folder: Path, pattern: str, quiet_s: float = 0.0) -> None:
        self.paths = RunPaths(str(folder / "root"), "run-1")
        self.work, self.outbox = Path(self.paths.work), Path(self.paths.outbox)
        for each in (self.work, self.outbox):
            each.mkdir(parents=True)
        self.now = 1000.0
        self.settings = {"pattern": pattern, "quiet_s": quiet_s}
        self.watch = CheckpointWatch(self.paths, self.settings, Journal(self.paths, 1), lambda: self.now)

    def write(self, name: str, text: str = "w") -> None:
        place = self.work / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)

    def link(self, name: str, target: str) -> None:
        place = self.work / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.unlink(missing_ok=True)
        place.symlink_to(target)

    def look(self, after_s: float = 1.0) -> list[dict[str, str]]:
        """Look once more, and hash what was taken."""
        self.now += after_s
        self.watch.look()
        for folder in self.paths.announced():
            self.watch.note_published(folder, publish(self.paths, folder, 1, lambda: 1.0, self.watch.origin))
        return self.taken

    @property
    def taken(self) -> list[dict[str, str]]:
        """The files of each checkpoint in the outbox, oldest first."""
        record = json.loads(Path(self.paths.checkpoint_watch).read_text()) if self.watch.last_step is not None else {}
        found = []
        for entry in record.get("taken", []):
            folder = self.outbox / str(entry["digest"])
            if folder.is_dir():
                names = [each for each in folder.rglob("*") if each.is_file() and each.name != "MANIFEST.json"]
                found.append({str(each.relative_to(folder)): each.read_text() for each in names})
        return found


def find_resumable(paths: RunPaths) -> tuple[str, int] | None:
    """From which checkpoint the next attempt would go on, of those that are hashed: its path and its step."""
    chosen = choose(paths, lambda _folder: "it is not hashed").chosen
    return None if chosen is None else (chosen.path, chosen.step)


@pytest.mark.parametrize(
    ("script", "pattern", "step", "files"),
    [
        (LIGHTNING, "out/last.ckpt", 3, {"last.ckpt": b"3\n"}),
        (LIGHTNING, "out/*.ckpt", 3, {"epoch=3.ckpt": b"3\n"}),
        (BEST, "out/checkpoint-best", 500, {"w": b"w\n"}),
        (BEST, "out/checkpoint-*", 500, {"w": b"w\n"}),
        (HUB, "hub/snapshots/*", 7, {"model.safetensors": b"w\n", "onnx/config.json": b"c\n"}),
    ],
)
def test_what_links_within_the_run_lead_to_comes_home_once(
    this_host: Host, script: str, pattern: str, step: int, files: dict[str, bytes]
) -> None:
    this_host.launch("linked-1", "sh", "-c", script, watch=watch(pattern, quiet_s=0.0))
    this_host.await_end("linked-1")
    (entry,) = this_host.look("linked-1")["outbox"]
    assert entry["step"] == step
    assert content(this_host, "linked-1", entry) == files
    assert findings(this_host, "linked-1") == []
    record = json.loads((this_host.folder("linked-1") / "harvest.json").read_text())
    check(record, "files", "harvest.json")


def test_what_leads_out_of_the_run_is_named_and_counted_for_as_long_as_it_is_there(
    some_host: Host, tmp_path: Path
) -> None:
    (tmp_path / "scratch" / "step-2").mkdir(parents=True)
    (tmp_path / "scratch" / "step-2" / "w").write_text("2")
    script = (
        f"mkdir -p tmp/step-1; cd tmp; ln -s {tmp_path}/scratch/step-2 step-2; cd step-1; echo c > config.json;"
        f"ln -s {tmp_path}/scratch/step-2/w model.bin; ln -s nowhere gone; ln -s /dev/null null; cd ../..; mv tmp out"
    )
    some_host.launch("linked-2", "sh", "-c", script, watch=watch(quiet_s=0.0))
    some_host.await_end("linked-2")
    (entry,) = some_host.look("linked-2")["outbox"]
    assert content(some_host, "linked-2", entry) == {"config.json": b"c\n"}
    (said, left) = findings(some_host, "linked-2")
    for name in ("out/step-2", "out/step-1/model.bin", "out/step-1/null"):
        assert name in said
    assert "out/step-1 comes home without gone, model.bin, null: " in left

    def outside() -> dict[str, Any]:
        (listed,) = some_host.call("sync.look", runs=[{"run_id": "linked-2"}])["runs"]
        found: dict[str, Any] = listed["outside"]
        return found

    assert outside()["count"] == 3
    work = some_host.folder("linked-2") / "work"
    (work / "out/step-1/model.bin").unlink()
    (work / "out/step-1/null").unlink()
    assert outside() == {"count": 1, "examples": ["out/step-2"]}


def test_links_that_came_with_the_code_are_nobodys_checkpoints(tmp_path: Path) -> None:
    job = Job(tmp_path, "out/step-*")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "w").touch()
    job.write("shared/w")
    job.link("out/step-1", str(tmp_path / "elsewhere"))
    job.link("out/step-2", "../shared")
    job.watch.begin()
    assert job.look() == []
    assert find_outside(job.paths) == []


def test_a_link_that_leads_elsewhere_is_another_checkpoint(tmp_path: Path) -> None:
    job = Job(tmp_path, "best")
    for step in (500, 700):
        job.write(f"out/step-{step}/w", str(step))
        job.link("best", f"out/step-{step}")
        job.look()
    assert job.taken == [{"w": "500"}, {"w": "700"}]
    assert job.watch.last_step == 700


def test_folders_behind_links_come_too_but_no_chain_of_them(tmp_path: Path) -> None:
    job = Job(tmp_path, "out/step-*")
    for step in (1, 2, 3):
        job.write(f"out/step-{step}/w", str(step))
        job.link(f"out/step-{step}/previous", f"../step-{step - 1}")
        job.link(f"out/step-{step}/up", "..")
        job.link(f"out/step-{step}/self", ".")
        job.link(f"out/step-{step}/loop", "loop")
    first, second, third = job.look()
    assert first == {"w": "1"}
    assert second == {"w": "2", "previous/w": "1"}
    assert third == {"w": "3", "previous/w": "2"}


def test_a_link_to_a_file_that_never_rests_holds_nothing_up(tmp_path: Path) -> None:
    job = Job(tmp_path, "out/step-*", quiet_s=5.0)
    job.write("out/step-1/w")
    job.link("out/step-1/train.log", "../../train.log")
    taken: list[dict[str, str]] = []
    for number in range(60):
        job.write("train.log", "line\n" * number)
        taken = job.look()
        if taken:
            break
    assert taken == [{"w": "w"}]
    assert number > 10


def test_a_file_that_each_save_writes_again_makes_no_new_checkpoints_of_the_old(tmp_path: Path) -> None:
    job = Job(tmp_path, "out/step-*")
    for step in (1, 2, 3):
        (job.work / "tokenizer.new").write_text(str(step))
        (job.work / "tokenizer.new").rename(job.work / "tokenizer.json")
        job.write(f"out/step-{step}/w", str(step))
        job.link(f"out/step-{step}/tokenizer.json", "../../tokenizer.json")
        job.look()
    assert job.taken == [{"w": str(step), "tokenizer.json": str(step)} for step in (1, 2, 3)]


def test_what_a_link_leads_to_is_copied_once_it_was_overwritten_in_place(tmp_path: Path) -> None:
    job = Job(tmp_path, "out/step-*")
    job.write("shared.bin", "1")
    job.write("out/step-1/w")
    job.link("out/step-1/shared.bin", "../../shared.bin")
    assert job.look() == [{"w": "w", "shared.bin": "1"}]
    job.write("shared.bin", "22")
    job.look()
    assert job.look() == [{"w": "w", "shared.bin": "22"}]
    job.write("shared.bin", "333")
    assert job.look() == [{"w": "w", "shared.bin": "22"}]


def test_a_link_that_is_turned_away_while_it_is_taken_brings_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = Job(tmp_path, "out/step-*")
    (tmp_path / "secret").write_text("secret")
    job.write("w")
    job.link("out/step-1/w", "../../w")
    real = os.makedirs

    def turn(path: str, mode: int = 0o777, exist_ok: bool = False) -> None:
        real(path, mode, exist_ok)
        job.link("out/step-1/w", str(tmp_path / "secret"))

    monkeypatch.setattr(os, "makedirs", turn)
    assert job.look() == []
    assert not [each for each in job.outbox.rglob("*") if each.is_file()]
