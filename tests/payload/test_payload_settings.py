"""The optimizer, the schedule, the evaluation's batch and the early stop, with real trainings."""

from __future__ import annotations

import copy
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.payload.interpreter import Interpreter
from tests.payload.payload_run import PayloadRun, make_training

pytestmark = pytest.mark.payload

KINDS_OF_STATE = """
import torch
saved = torch.load("../checkpoints/checkpoint-6/optimizer.pt", weights_only=True)
print("kept:", *sorted(saved["state"][0]), saved["param_groups"][0].get("betas"))
"""


@pytest.fixture(scope="module")
def adafactor(
    payload_python: Interpreter, chat_files: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory
) -> PayloadRun:
    """Six steps of another optimizer and schedule, to the end."""
    train = {"max_steps": 6, "lr_scheduler": "warmup_stable_decay", "lr_floor": 0.1, "decay_steps": 0.5}
    train |= {"warmup_steps": 1, "learning_rate": 0.01, "optimizer": {"name": "adafactor"}}
    training = make_training(chat_files[0], train=train, checkpoint={"every_steps": 3, "keep_last": 2})
    run = PayloadRun(tmp_path_factory.mktemp("adafactor") / "run", payload_python, training).prepare()
    run.train()
    return run


@pytest.fixture
def at_3(adafactor: PayloadRun, tmp_path: Path) -> PayloadRun:
    """The same with its checkpoint 3 left, three steps before its end."""
    shutil.copytree(adafactor.path, tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "checkpoints" / "checkpoint-6")
    return PayloadRun(tmp_path / "run", adafactor.python, copy.deepcopy(adafactor.training), attempt=2)


def test_another_optimizer_and_schedule_are_used_and_resume_to_the_bit(adafactor: PayloadRun, at_3: PayloadRun) -> None:
    # A warm-up from the floor, two steps at the top, and half of a cosine down to the floor.
    rates = [line["learning_rate"] for line in adafactor.lines("train")]
    assert rates == pytest.approx([0.001, 0.01, 0.01, 0.01, 0.00775, 0.00325])
    assert "exp_avg_sq_row" in adafactor.finish_python("-c", KINDS_OF_STATE).output
    assert "resuming from checkpoint-3" in at_3.train().output
    adapters = [r.path / "checkpoints" / "checkpoint-6" / "adapter_model.safetensors" for r in (at_3, adafactor)]
    assert adapters[0].read_bytes() == adapters[1].read_bytes()


def test_another_optimizer_begins_afresh_only_when_told(at_3: PayloadRun) -> None:
    at_3.training["train"] |= {"optimizer": {"name": "adamw", "betas": [0.8, 0.95], "eps": 1e-7}, "lr_floor": 0.5}
    at_3.write_spec()
    assert at_3.finish().code == 2
    assert '`train.optimizer` was {"name": "adafactor", ' in at_3.failure["message"]
    assert "`train.lr_floor` was 0.1 and is 0.5" in at_3.failure["message"]

    at_3.training["resume"] = {"accept_changes": True}
    at_3.attempt = 3
    at_3.write_spec()
    at_3.train()
    kept = at_3.finish_python("-c", KINDS_OF_STATE).output
    assert "kept: exp_avg exp_avg_sq step (0.8, 0.95)" in kept
    assert at_3.lines("train")[-1]["learning_rate"] == pytest.approx(0.005 + 0.25 * 0.005)


def test_moments_of_another_optimizer_are_no_start(
    adafactor: PayloadRun, chat_files: tuple[Path, Path], make_run: Any
) -> None:
    start = {"path": str(adafactor.path / "outbox" / ".new-6"), "optimizer": "moments"}
    run = make_run(make_training(chat_files[0], start_from=start))
    assert run.finish().code == 2
    assert "has no moments of AdamW: another optimizer wrote it" in run.failure["message"]


def test_a_training_that_improves_no_more_ends_with_a_checkpoint_and_a_resume_counts_on(
    undisturbed: PayloadRun, chat_files: tuple[Path, Path], make_run: Any
) -> None:
    train: dict[str, Any] = {"max_steps": 20, "eval_every_steps": 2, "log_every_steps": 5, "eval_batch_size": 3}
    train["stop_early"] = {"metric": "eval_loss", "patience": 2, "min_delta": 100}  # so that only the first improves
    run = make_run(make_training(*chat_files, train=train, checkpoint={"every_steps": 5, "keep_last": 2}))
    said = "stopped early at step 6: eval_loss did not fall by more than 100 for 2 evaluations; best "
    assert said in run.train().output
    assert run.summary["stopped_early"].startswith(said)
    assert run.lines("train")[-1]["step"] == 6
    assert [line.get("eval_without_improvement") for line in run.lines("eval")] == [None, 0, 1, 2]
    assert run.summary["eval_loss_before"] == pytest.approx(undisturbed.summary["eval_loss_before"], rel=1e-6)
    assert announced_kind(run, 6) == "final"
    last = run.path / "checkpoints" / "checkpoint-6"
    expected, tokens = (last / "adapter_model.safetensors").read_bytes(), run.summary["train_tokens"]

    shutil.rmtree(last)  # as if it was killed before it saved
    run.attempt = 2
    assert "resuming from checkpoint-5" in run.train().output
    assert [line["step"] for line in run.lines("train") if line["attempt"] == 2] == [6]
    assert (last / "adapter_model.safetensors").read_bytes() == expected

    run.attempt = 3
    assert said in run.train().output
    assert [line["step"] for line in run.lines("train") if line["attempt"] == 3] == []
    assert (run.summary["train_tokens"], announced_kind(run, 6)) == (tokens, "final")

    run.training["train"]["stop_early"]["patience"] = 3  # which may change freely
    run.attempt = 4
    run.write_spec()
    run.train()
    assert run.lines("eval")[-1]["eval_without_improvement"] == 3  # counted on from the checkpoint
    assert "at step 8" in run.summary["stopped_early"]
    assert run.summary["train_tokens"] > tokens


def announced_kind(run: PayloadRun, step: int) -> str:
    return str(json.loads((run.path / "outbox" / f".new-{step}" / ".announce.json").read_text())["kind"])
