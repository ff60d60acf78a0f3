"""Checkpoints of a divided model that are written while the training continues: each rank its shards, announced when all are whole."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.payload.interpreter import Ended, Process, wait_for_end
from tests.payload.payload_run import PayloadRun, chats, make_training, write_jsonl
from tests.payload.test_payload_sharding import batch_of

pytestmark = pytest.mark.payload

SHARDS = [f"{folder}/__{rank}_0.distcp" for folder in ("pytorch_model_fsdp_0", "optimizer_0") for rank in (0, 1)]

PROGRAM = """
import errno, os, runpy, signal, sys
from torch.distributed.checkpoint import FileSystemWriter
from armada_train.training.background_writer import BackgroundWriter
write, write_data = BackgroundWriter._write, FileSystemWriter.write_data
rank, held, full = (os.environ.get(name) for name in ("RANK", "HELD", "FULL"))

def hold(self, writes, finish):
    if rank == "0" and self._checkpoint.name == held:
        with open(os.environ["GATE"]) as gate:  # waits until the test opens the other end
            if gate.read() == "die":
                os.kill(os.getpid(), signal.SIGKILL)
    write(self, writes, finish)

def fill(self, *given, **named):
    if rank == "1" and full is not None and full in str(self.path):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))
    return write_data(self, *given, **named)

BackgroundWriter._write, FileSystemWriter.write_data = hold, fill
sys.argv[0] = "armada_train"
runpy.run_module("armada_train", run_name="__main__", alter_sys=True)
"""
"""The payload, whose first rank holds the writing of one checkpoint, and whose second rank finds a disk full."""


def make(folder: Path, *, in_background: bool = True, lora: Mapping[str, Any] | None = None) -> dict[str, Any]:
    training = make_training(
        write_jsonl(folder / "rows.jsonl", chats(32)),
        batch=batch_of(2),
        train={"max_steps": 6, "sharding": "fsdp"},
        checkpoint={"every_steps": 2, "keep_last": 4, "in_background": in_background},
        lora=lora or {},
    )
    return training | {"lora": None} if lora is None else training


def start(run: PayloadRun, **environment: str) -> Process:
    program = run.path / "program.py"
    program.write_text(PROGRAM)
    gate = run.path / "gate"
    os.mkfifo(gate)
    run.environment = {**environment, "GATE": str(gate)}
    launcher = ("-m", "accelerate.commands.launch", "--config_file", str(run.accelerate_file))
    return run.start_python(*launcher, str(program), "--spec", str(run.spec_file))


def wait_for(run: PayloadRun, process: Process, step: int, *phases: str) -> None:
    def is_there() -> bool:
        beat = run.heartbeat(0) if (run.path / "heartbeat-0.json").exists() else {}
        return int(beat.get("step", 0)) >= step and beat["phase"] in (phases or (beat["phase"],))

    run.wait_for(process, is_there, f"{phases} at step {step}")


def resume(run: PayloadRun) -> Ended:
    run.attempt += 1
    run.environment = {}
    return run.train(launcher=True)


def read(run: PayloadRun, step: int, name: str) -> bytes:
    return (run.path / "checkpoints" / f"checkpoint-{step}" / name).read_bytes()


@pytest.mark.parametrize(
    "lora",
    [pytest.param(None, id="every weight"), pytest.param({}, id="adapter", marks=pytest.mark.long)],
)
@pytest.mark.takes_long("three trainings of two ranks: one that waits for its shards, one that is killed, its resume")
def test_shards_of_a_rank_that_was_killed_are_not_announced_and_the_resume_ends_as_a_training_that_waits(
    lora: Mapping[str, Any] | None, make_run: Any, tmp_path: Path
) -> None:
    waiting, run = (
        make_run(make(tmp_path, in_background=False, lora=lora), "waiting"),
        make_run(make(tmp_path, lora=lora)),
    )
    waiting.train(launcher=True)
    process = start(run, HELD="checkpoint-4")
    wait_for(run, process, 6, "saving")  # it trained while checkpoint 4 was not written; the next one waits for it
    assert run.steps_in("outbox", ".new-") == [2]
    (run.path / "gate").write_text("die")
    assert wait_for_end(process).code != 0
    assert run.steps_in("outbox", ".new-") == [2]

    ended = resume(run)
    assert "checkpoint-4 is skipped: it is marked as incomplete" in ended.output
    assert "resuming from checkpoint-2" in ended.output
    assert run.losses() == waiting.losses()
    whole = [] if lora is None else ["adapter_model.safetensors"]
    for step in (2, 4, 6):
        for name in (*SHARDS, *whole, "scheduler.pt", "rng_state_1.pth"):
            assert read(run, step, name) == read(waiting, step, name), f"{name} of step {step}"
        folders = [each.path / "outbox" / f".new-{step}" for each in (run, waiting)]
        names = [{str(path.relative_to(folder)) for path in folder.rglob("*")} for folder in folders]
        assert names[0] == names[1]
        listed = [json.loads((folder / "shards.json").read_text())["files"] for folder in folders]
        assert [listed[0][name] for name in SHARDS] == [listed[1][name] for name in SHARDS]
    assert run.steps_in("outbox", ".new-") == [2, 4, 6]


@pytest.mark.parametrize("in_background", [False, True])
def test_a_disk_that_is_full_for_one_rank_ends_the_run_with_the_cause(
    in_background: bool, make_run: Any, tmp_path: Path
) -> None:
    run = make_run(make(tmp_path, in_background=in_background))
    ended = wait_for_end(start(run, FULL="checkpoint-4/"))
    assert ended.code == 1, ended.output
    assert run.failure["reason"] == "disk_full", ended.output
    assert "the disk is full: checkpoint-4 could not be saved in " in run.failure["message"]
    assert "checkpoint-2 is the last complete one" in run.failure["message"]
    assert run.steps_in("outbox", ".new-") == [2]
    assert run.steps_in("checkpoints", "checkpoint-") == [2]


@pytest.mark.long
def test_a_signal_while_shards_of_an_adapter_are_written_waits_for_them_and_saves_once_more(
    make_run: Any, tmp_path: Path
) -> None:
    training = make(tmp_path, lora={})
    training["train"]["max_steps"] = 1_000_000
    run = make_run(training)
    process = start(run, HELD="checkpoint-2")
    wait_for(run, process, 3)
    process.send_signal(signal.SIGTERM)
    wait_for(run, process, 4, "saving")
    assert run.steps_in("outbox", ".new-") == []
    (run.path / "gate").write_text("")
    ended = wait_for_end(process)
    assert run.failure["reason"] == "preempted", ended.output
    saved = run.steps_in("outbox", ".new-")
    assert saved[0] == 2
    assert f"checkpoint {saved[-1]} is complete" in run.failure["message"]
    assert (run.path / "outbox" / ".new-2" / "adapter_model.safetensors").stat().st_size > 0


@pytest.mark.long
def test_of_two_replicas_each_shard_is_written_once(make_run: Any, tmp_path: Path) -> None:
    runs = []
    for in_background in (False, True):
        training = make(tmp_path, in_background=in_background) | {"batch": batch_of(4)}
        training["train"] |= {"sharding": "fsdp-hybrid", "max_steps": 2}
        runs.append(make_run(training, str(in_background)))
        runs[-1].train(launcher=True)
    folders = [run.path / "outbox" / ".new-2" for run in runs]
    names = [sorted(str(path.relative_to(folder)) for path in folder.rglob("*.distcp")) for folder in folders]
    assert names[0] == names[1]
    for name in names[0]:
        assert (folders[0] / name).read_bytes() == (folders[1] / name).read_bytes(), name
