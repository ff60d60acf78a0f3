"""What a training lost of its own checkpoints is put back from the outbox before it looks where to resume."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from armada_agent.outbox import resumable
from armada_agent.outbox.finishing import Outbox
from armada_agent.paths import RunPaths
from armada_agent.records.journal import Journal

from tests.agent.conversation import Host
from tests.agent.test_agent_outbox import FILES, announce

TRAINING: dict[str, Any] = {"training": {"task": "sft"}}
PERMIT = {"ARMADA_RESTART_IF_DAMAGED": "2"}


@pytest.fixture
def run(tmp_path: Path) -> RunPaths:
    """A training that saved steps 10 and 20 and was killed: both were hashed and are in the outbox."""
    paths = RunPaths(str(tmp_path), "run-1")
    for step in (10, 20):
        own = tmp_path / "runs/run-1/checkpoints" / f"checkpoint-{step}"
        shutil.copytree(announce(Path(paths.folder), step), own)
        (own / ".announce.json").unlink()
    Outbox(paths, {"keep": 9, "disk_floor_bytes": 0}, Journal(paths, 1)).look()
    assert len(paths.checkpoints()) == 2
    return paths


def own(run: RunPaths) -> dict[str, dict[str, bytes]]:
    """The training's own checkpoints, and their files."""
    folder = Path(run.folder, "checkpoints")
    return {
        each.name: {str(path.relative_to(each)): path.read_bytes() for path in each.rglob("*") if path.is_file()}
        for each in folder.iterdir()
    }


def put_back(run: RunPaths, spec: dict[str, Any] = TRAINING, environment: dict[str, str] | None = None) -> list[str]:
    """What is said of it."""
    Path(run.events).unlink(missing_ok=True)
    journal = Journal(run, 2)
    journal.state["attempt"] = 2
    outbox = Outbox(run, {"keep": 9, "disk_floor_bytes": 0}, journal)
    resumable.put_back(run, spec, environment or {}, journal, outbox.finish_now)
    lines = Path(run.events).read_text().splitlines() if Path(run.events).exists() else []
    return [event["message"] for event in map(json.loads, lines) if event["kind"] == "finding"]


def lose(run: RunPaths, *steps: int) -> None:
    for step in steps:
        shutil.rmtree(Path(run.folder, "checkpoints", f"checkpoint-{step}"))


def in_outbox(run: RunPaths, step: int) -> Path:
    manifests = [Path(run.checkpoint(digest, "MANIFEST.json")) for digest in run.checkpoints()]
    (found,) = [each.parent for each in manifests if json.loads(each.read_text())["step"] == step]
    return found


def test_the_newest_that_a_training_lost_is_put_back(run: RunPaths) -> None:
    before = own(run)
    assert put_back(run) == []
    lose(run, 10, 20)
    Path(run.folder, "checkpoints/.part-checkpoint-20").mkdir()  # of a supervisor that was killed here
    said = "checkpoint-20 was missing in checkpoints/: its copy in the outbox, whose bytes are right, was put back"
    assert put_back(run) == [said]
    assert own(run) == {"checkpoint-20": before["checkpoint-20"]}
    assert put_back(run) == []


@pytest.mark.parametrize("lost", [(10,), ()])
def test_one_that_lies_there_is_left_to_the_training_whole_or_not(run: RunPaths, lost: tuple[int, ...]) -> None:
    lose(run, *lost)
    Path(run.folder, "checkpoints/checkpoint-20/step").write_bytes(b"damaged")
    before = own(run)
    assert put_back(run) == []
    assert own(run) == before


@pytest.mark.parametrize("lost", [(), (10, 20)])
def test_one_that_was_announced_and_not_hashed_is_put_back(run: RunPaths, lost: tuple[int, ...]) -> None:
    """The batch system killed its supervisor while that hashed it."""
    announce(Path(run.folder), 30)
    announce(Path(run.folder), 40, size_bytes=1 << 30)  # a power cut left less of it
    announce(Path(run.folder), 15)
    lose(run, *lost)
    said = "checkpoint-30 was missing in checkpoints/: its copy in the outbox, whose bytes are right, was put back"
    assert put_back(run) == [said]
    assert set(own(run)) == {"checkpoint-10", "checkpoint-20", "checkpoint-30"} - {
        f"checkpoint-{each}" for each in lost
    }
    assert own(run)["checkpoint-30"] == {**FILES, "step": b"30"}
    assert {Path(each).name for each in run.announced()} == {".new-40", ".new-15"}


def test_an_earlier_one_that_nobody_could_hash_does_not_come_before_a_later_one(run: RunPaths) -> None:
    announce(Path(run.folder), 40)
    Outbox(run, {"keep": 9, "disk_floor_bytes": 0}, Journal(run, 1)).look()
    announce(Path(run.folder), 30)  # refused by the supervisor of the first attempt
    said = "checkpoint-40 was missing in checkpoints/: its copy in the outbox, whose bytes are right, was put back"
    assert put_back(run) == [said]
    assert {Path(each).name for each in run.announced()} == {".new-30"}


def test_one_that_was_announced_and_lies_in_its_own_folder_is_left_to_the_outbox(run: RunPaths) -> None:
    announce(Path(run.folder), 20)
    assert put_back(run) == []
    assert len(run.announced()) == 1


def test_a_copy_with_other_bytes_is_not_put_back(run: RunPaths) -> None:
    lose(run, 20)
    (in_outbox(run, 20) / "step").write_bytes(b"2?")
    assert put_back(run) == ["checkpoint-20 is missing in checkpoints/, and its copy in the outbox is damaged"]
    assert list(own(run)) == ["checkpoint-10"]


@pytest.mark.parametrize(
    ("spec", "environment"), [({}, {}), (TRAINING, PERMIT)], ids=["a script", "from the beginning"]
)
def test_nothing_is_put_back_for_whoever_does_not_want_it(
    run: RunPaths, spec: dict[str, Any], environment: dict[str, str]
) -> None:
    lose(run, 20)
    assert put_back(run, spec, environment) == []
    assert list(own(run)) == ["checkpoint-10"]


def test_nothing_is_written_where_a_link_leads(run: RunPaths, tmp_path: Path) -> None:
    shutil.rmtree(Path(run.folder, "checkpoints"))
    (tmp_path / "elsewhere").mkdir()
    Path(run.folder, "checkpoints").symlink_to(tmp_path / "elsewhere")
    assert put_back(run) == []
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_model_that_was_put_beside_it_for_home_stays_out(run: RunPaths) -> None:
    folder = announce(Path(run.folder), 30)
    (folder / "base_model").mkdir()
    (folder / "base_model/config.json").write_text("{}")
    Outbox(run, {"keep": 9, "disk_floor_bytes": 0}, Journal(run, 1)).look()
    put_back(run)
    assert set(own(run)["checkpoint-30"]) == {*FILES, "step"}


def test_a_training_that_is_resumed_gets_back_what_it_lost(some_host: Host) -> None:
    """The next supervisor puts it back before it starts the job."""
    some_host.launch("train-1", "sh", "-c", "cat ../checkpoints/checkpoint-20/step || exit 3", **TRAINING)
    assert some_host.await_end("train-1")["exit_code"] == 3
    folder = some_host.folder("train-1")
    announce(folder, 20)
    paths = RunPaths(str(folder.parent.parent), "train-1")
    Outbox(paths, {"keep": 9, "disk_floor_bytes": 0}, Journal(paths, 1)).look()
    some_host.call("run.submit", run_id="train-1", submission=2)
    some_host.await_state("train-1", "succeeded", submission=2)
    assert some_host.output("train-1").endswith("20")
