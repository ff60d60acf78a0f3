"""Checkpoints that are written while the training continues: the same bytes, announced when whole, waited for at each end."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.payload.interpreter import Process, wait_for_end
from tests.payload.payload_run import PayloadRun, make_training
from tests.payload.test_payload_preemption import check_preempted

pytestmark = pytest.mark.payload

HELD = """
import os, runpy, sys
from armada_train.training.background_writer import BackgroundWriter
write = BackgroundWriter._write

def held(self, writes, finish):
    if self._checkpoint.name == os.environ["HELD"]:
        with open(os.environ["GATE"]) as gate:  # waits until the test opens the other end
            words = gate.read()
        if words == "full":
            writes.insert(0, lambda: os.write(os.open("/dev/full", os.O_WRONLY), b"a"))
        if words == "broken":
            writes.insert(0, lambda: int("no number"))
    write(self, writes, finish)

BackgroundWriter._write = held
sys.argv[0] = "armada_train"
runpy.run_module("armada_train", run_name="__main__", alter_sys=True)
"""


class Held:
    """A training whose writing of one checkpoint is held until `let`."""

    def __init__(self, run: PayloadRun, step: int) -> None:
        self.run = run
        self.gate = run.path / "gate"
        os.mkfifo(self.gate)
        program = run.path / "held.py"
        program.write_text(HELD)
        run.environment = {"HELD": f"checkpoint-{step}", "GATE": str(self.gate)}
        self.process: Process = run.start_python(str(program), "--spec", str(run.spec_file))

    def wait_for(self, step: int, *phases: str) -> None:
        """Wait until the training is at this step or a later one."""

        def is_there() -> bool:
            beat = self.run.heartbeat(0) if (self.run.path / "heartbeat-0.json").exists() else {}
            return int(beat.get("step", 0)) >= step and beat["phase"] in (phases or (beat["phase"],))

        self.run.wait_for(self.process, is_there, f"{phases} at step {step}")

    def let(self, words: str = "") -> None:
        self.gate.write_text(words)


def in_background(run: PayloadRun) -> dict[str, Any]:
    training: dict[str, Any] = json.loads(json.dumps(run.training))
    training["checkpoint"]["in_background"] = True
    return training


def read(run: PayloadRun, step: int, name: str) -> bytes:
    return (run.path / "checkpoints" / f"checkpoint-{step}" / name).read_bytes()


def test_a_run_killed_while_it_writes_announced_nothing_and_resumes_from_the_checkpoint_before(
    undisturbed: PayloadRun, make_run: Any
) -> None:
    run = make_run(in_background(undisturbed))
    held = Held(run, 8)
    held.wait_for(12, "saving")  # it trained while checkpoint 8 was not written; the next one waits for it
    assert run.steps_in("outbox", ".new-") == [4]
    held.process.kill()
    wait_for_end(held.process)

    run.attempt = 2
    ended = run.train()
    assert "checkpoint-8 is skipped: it is marked as incomplete" in ended.output
    assert "resuming from checkpoint-4" in ended.output
    for name in ("adapter_model.safetensors", "optimizer.pt", "scheduler.pt"):
        assert read(run, 12, name) == read(undisturbed, 12, name), name
    assert run.steps_in("checkpoints", "checkpoint-") == [8, 12]
    assert run.steps_in("outbox", ".new-") == [4, 8, 12]
    for step in (8, 12):
        names = [
            {path.name for path in (each.path / "outbox" / f".new-{step}").iterdir()} for each in (run, undisturbed)
        ]
        assert names[0] == names[1]


def test_a_signal_while_a_checkpoint_is_written_waits_for_it_and_saves_once_more(
    undisturbed: PayloadRun, make_run: Any
) -> None:
    training = in_background(undisturbed)
    training["train"] |= {"max_steps": 1_000_000, "log_every_steps": 1}
    run = make_run(training)
    held = Held(run, 4)
    held.wait_for(5)
    held.process.send_signal(signal.SIGTERM)
    held.wait_for(6, "saving")
    assert run.steps_in("outbox", ".new-") == []
    held.let()
    step = check_preempted(run, wait_for_end(held.process), "SIGTERM")
    assert run.steps_in("outbox", ".new-") == [4, step] or run.steps_in("outbox", ".new-") == [4, 8, step]


@pytest.mark.parametrize(
    ("words", "reason", "message"),
    [
        ("full", "disk_full", "the disk is full: checkpoint-8 could not be saved in "),
        pytest.param("broken", "exception", "checkpoint-8 could not be written: ValueError", marks=pytest.mark.long),
    ],
)
def test_a_checkpoint_that_cannot_be_written_ends_the_run_with_the_cause(
    words: str, reason: str, message: str, undisturbed: PayloadRun, make_run: Any
) -> None:
    run = make_run(in_background(undisturbed))
    held = Held(run, 8)
    held.wait_for(9)
    held.let(words)
    ended = wait_for_end(held.process)
    assert ended.code == 1, ended.output
    assert run.failure["reason"] == reason
    assert message in run.failure["message"]
    assert "checkpoint-8 could not be written: " in ended.output
    assert run.steps_in("outbox", ".new-") == [4]


@pytest.mark.long
def test_two_ranks_write_all_weights_in_the_background_and_resume_to_the_bit(
    chat_files: tuple[Path, Path], make_run: Any
) -> None:
    batch = {"global": 8, "micro": 2, "accumulation": 2, "processes": 2}
    runs = []
    for word in (False, True):
        checkpoint = {"every_steps": 3, "keep_last": 2, "in_background": word}
        training = make_training(*chat_files, train={"max_steps": 6}, batch=batch, checkpoint=checkpoint)
        run = make_run(training | {"lora": None}, str(word))
        run.train(launcher=True)
        runs.append(run)
    plain, run = runs
    names = ("model.safetensors", "optimizer.pt", "rng_state_1.pth")
    for step in (3, 6):
        for name in names:
            assert read(run, step, name) == read(plain, step, name), name
    for path in (run.path / "checkpoints" / "checkpoint-6").iterdir():
        path.unlink()
    (run.path / "checkpoints" / "checkpoint-6").rmdir()
    run.attempt = 2
    assert "resuming from checkpoint-3" in run.train(launcher=True).output
    assert all(read(run, 6, name) == read(plain, 6, name) for name in names)


TIED = """
import torch
from armada_train.training.background_writer import copy_to_host
weight = torch.arange(6.0).reshape(2, 3)
given = {"a": weight, "b": weight.view(2, 3), "c": weight.t(), "d": [torch.tensor(3), ({"e": weight[0]}, "f", 1.5)]}
made = copy_to_host(given)
weight.zero_()
assert made["a"].data_ptr() == made["b"].data_ptr() != made["c"].data_ptr(), "tied weights must stay tied"
assert made["a"].tolist() == [[0, 1, 2], [3, 4, 5]] and made["c"].tolist() == [[0, 3], [1, 4], [2, 5]]
assert made["d"][0].item() == 3 and made["d"][1][0]["e"].tolist() == [0, 1, 2] and made["d"][1][1:] == ("f", 1.5)
print("copied")
"""


def test_copies_share_what_the_tensors_shared_and_nothing_with_them(payload_python: Any) -> None:
    ended = payload_python.finish("-c", TIED)
    assert ended.output.splitlines()[-1] == "copied", ended.output
