"""Casts of an adapter's inputs that autocast undoes are left out, and nothing else changes by a bit."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.payload.interpreter import Ended
from tests.payload.payload_run import PayloadRun, chats, make_training, write_jsonl
from tests.payload.test_payload_distill import make_distill
from tests.payload.test_payload_grpo import begin, make_grpo
from tests.payload.test_payload_tasks import judged, pairs

pytestmark = pytest.mark.payload

# The payload with PEFT's casts as they are (`all`), or without those that are undone (`needed`); casts of 16 bits are
# counted, by whether autocast was on.
PROGRAM = """
import atexit, json, os, runpy, sys
import torch
from armada_train.training import adapter_casts, adapter_products

adapter_products.add_within_products = lambda: None  # it replaces what casts
mode, out = sys.argv[1:3]
cast, counts = adapter_casts._CAST, {"under autocast": 0, "outside": 0}

def count(layer, x, dtype):
    if x.dtype == torch.bfloat16 and dtype == torch.float32:
        counts["under autocast" if torch.is_autocast_enabled("cpu") else "outside"] += 1
    return cast(layer, x, dtype)

adapter_casts._CAST = count
if mode == "all":
    def leave_out_casts():
        adapter_casts.BaseTunerLayer._cast_input_dtype = count
    adapter_casts.leave_out_casts = leave_out_casts
if os.environ.get("RANK", "0") == "0":
    atexit.register(lambda: open(out, "w").write(json.dumps(counts)))
sys.argv = ["armada_train", *sys.argv[3:]]
runpy.run_module("armada_train", run_name="__main__", alter_sys=True)
"""


def in_bf16(folder: Path, task: str = "sft", **changes: Any) -> dict[str, Any]:
    """Four steps with a checkpoint at each second, an evaluation and a sample that is generated outside of autocast."""
    rows = {"sft": chats(32), "dpo": pairs(32), "kto": judged(32), "reward": pairs(32)}[task]
    files = write_jsonl(folder / "rows.jsonl", rows), write_jsonl(folder / "eval.jsonl", rows[:5])
    training = make_training(
        *files,
        precision="bf16",
        train={"max_steps": 4, "eval_every_steps": 2},
        checkpoint={"every_steps": 2},
        **({} if task == "reward" else {"evaluation": {"samples": 1, "sample_tokens": 4}}),
        **({} if task == "sft" else {"objective": {"name": task}}),
    )
    for key, value in changes.items():
        training[key] = {**training[key], **value} if isinstance(value, Mapping) else value
    return training


def train(run: PayloadRun, mode: str) -> dict[str, int]:
    """Train with all casts or with those that are needed; return how many there were in the first rank."""
    out, program = run.path / "casts.json", run.path / "program.py"
    program.write_text(PROGRAM)
    launcher: list[str] = []
    if run.training["batch"]["processes"] > 1:
        launcher = ["-m", "torch.distributed.run", "--nproc_per_node", "2", "--rdzv_backend", "c10d"]
        launcher += ["--rdzv_endpoint", "localhost:0"]
    ended: Ended = run.finish_python(*launcher, str(program), mode, str(out), "--spec", str(run.spec_file))
    assert ended.code == 0, ended.output
    counts: dict[str, int] = json.loads(out.read_text())
    return counts


def curves(run: PayloadRun) -> list[list[float]]:
    train = [[line["step"], line["loss"], line["grad_norm"]] for line in run.lines("train")]
    return train + [[line["step"], line["eval_loss"]] for line in run.lines("eval")]


def read(run: PayloadRun, step: int, name: str) -> bytes:
    return (run.path / "checkpoints" / f"checkpoint-{step}" / name).read_bytes()


def check_equal(one: PayloadRun, other: PayloadRun) -> None:
    """Compare losses, norms of gradients and what the optimizer made of every gradient, to the bit."""
    assert curves(one) == curves(other)
    steps = one.steps_in("checkpoints", "checkpoint-")
    assert len(steps) == 2
    for step in steps:
        for name in ("adapter_model.safetensors", "optimizer.pt"):
            assert read(one, step, name) == read(other, step, name), (step, name)


CASES: dict[str, dict[str, Any]] = {
    "sft": {},
    "recomputed activations": {"train": {"activation_checkpointing": True}},
    "packed": {"train": {"packing": True}},
    "whole modules": {"lora": {"modules_to_save": ["lm_head"], "rslora": False}},
    "dpo": {"task": "dpo"},
    "kto": {"task": "kto"},
    "reward": {"task": "reward"},
    "two ranks": {"batch": {"micro": 2, "processes": 2}},
}


@pytest.mark.parametrize("case", CASES)
def test_without_the_casts_losses_and_gradients_are_the_same_to_the_bit(
    case: str, make_run: Any, tmp_path: Path
) -> None:
    training = in_bf16(tmp_path, **CASES[case])
    every, needed = make_run(training, "all"), make_run(training, "needed")
    assert train(every, "all")["under autocast"] > 0
    counts = train(needed, "needed")
    assert counts["under autocast"] == 0
    assert (counts["outside"] > 0) == ("evaluation" in training)  # its sample
    check_equal(needed, every)


@pytest.mark.parametrize("task", ["grpo", "distill"])
@pytest.mark.takes_long("two trainings that sample")
def test_what_samples_while_it_trains_is_the_same_too(task: str, make_run: Any, tmp_path: Path) -> None:
    made: dict[str, Any] = (
        make_grpo(tmp_path, precision="bf16")
        if task == "grpo"
        else make_distill(tmp_path, precision="bf16", objective={"lmbda": 0.5, "max_completion_length": 8})
    )
    every, needed = begin(make_run(made, "all")), begin(make_run(made, "needed"))
    assert train(every, "all")["under autocast"] > 0
    assert train(needed, "needed")["under autocast"] == 0
    check_equal(needed, every)


def test_dora_keeps_them_because_its_norms_need_fp32(make_run: Any, tmp_path: Path) -> None:
    training = in_bf16(tmp_path, lora={"dora": True})
    every, needed = make_run(training, "all"), make_run(training, "needed")
    assert train(needed, "needed") == train(every, "all")
    check_equal(needed, every)


@pytest.mark.parametrize("dropout", [0.0, 0.2])
def test_a_resume_is_exact_and_dropout_trains(make_run: Any, tmp_path: Path, dropout: float) -> None:
    training = in_bf16(tmp_path, train={"max_steps": 20, "eval_every_steps": 10}, lora={"dropout": dropout})
    training["checkpoint"]["every_steps"] = 10
    straight = make_run(training, "straight")
    straight.train()
    losses = straight.losses()
    assert losses[20] < 0.6 * losses[1]
    shutil.copytree(straight.path, tmp_path / "resumed")
    shutil.rmtree(tmp_path / "resumed" / "checkpoints" / "checkpoint-20")
    resumed = PayloadRun(tmp_path / "resumed", straight.python, straight.training, attempt=2)
    assert "resuming from checkpoint-10" in resumed.train().output
    for name in ("adapter_model.safetensors", "optimizer.pt", "rng_state.pth"):
        assert read(resumed, 20, name) == read(straight, 20, name), name


def test_in_fp32_nothing_is_replaced(make_run: Any, tmp_path: Path) -> None:
    run = make_run(in_bf16(tmp_path, precision="fp32"))
    assert train(run, "needed") == {"under autocast": 0, "outside": 0}
