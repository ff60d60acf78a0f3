"""Evaluation's best and samples, and the switches that make training faster or better."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.payload.interpreter import Interpreter
from tests.payload.payload_run import chats, make_training, read_jsonl, write_jsonl

pytestmark = pytest.mark.payload


def test_the_best_checkpoint_is_kept_announced_and_speaks(chat_files: tuple[Path, Path], make_run: Any) -> None:
    # A learning rate that grows too large: the eval loss is 5.3, 4.5, 5.5 and 5.4.
    train = {"max_steps": 8, "eval_every_steps": 2, "learning_rate": 0.1, "lr_scheduler": "linear", "warmup_steps": 7}
    training = make_training(*chat_files, train=train, checkpoint={"every_steps": 2, "keep_last": 1})
    training |= {"evaluation": {"samples": 2, "sample_tokens": 5}, "peak_flops": 1e12}
    run = make_run(training)
    run.train()
    losses = {line["step"]: line["eval_loss"] for line in run.lines("eval") if line["step"]}
    best = min(losses, key=losses.__getitem__)
    assert best < 8
    assert run.summary["best_step"] == best
    assert run.steps_in("checkpoints", "checkpoint-") == [best, 8]
    announced = json.loads((run.path / "outbox" / ".new-8" / ".announce.json").read_text())["metrics"]
    assert announced["best_step"] == best
    assert announced["best_eval_loss"] == losses[best]

    samples = read_jsonl(run.path / "samples.jsonl")
    assert [line["step"] for line in samples] == [0, 0, 2, 2, 4, 4, 6, 6, 8, 8]
    assert samples[0]["prompt"] == [{"role": "user", "content": "What is 0 plus one?"}]
    assert samples[0]["expected"] == "It is 1."
    assert all(isinstance(line["generated"], str) for line in samples)

    line = run.lines("train")[-1]
    assert 0 <= line["data_wait_s"] < line["step_time_s"]
    assert line["peak_memory_bytes"] > 100_000_000
    assert 0 < line["mfu"] < 1


def test_packed_rows_train_on_every_token_once(chat_files: tuple[Path, Path], make_run: Any) -> None:
    plain = make_run(make_training(*chat_files, train={"max_steps": None, "epochs": 1}), "plain")
    packed = make_run(make_training(*chat_files, train={"max_steps": None, "epochs": 1, "packing": True}), "packed")
    for run in (plain, packed):
        run.train()
    assert packed.summary["train_tokens"] == plain.summary["train_tokens"]
    assert packed.lines("train")[-1]["step"] < plain.lines("train")[-1]["step"]
    before = [run.summary["eval_loss_before"] for run in (plain, packed)]
    assert before[0] == pytest.approx(before[1], rel=1e-6)  # evaluation is not packed
    assert [finding for finding in packed.summary["findings"] if finding.startswith("packing with attention sdpa")]


MEETING = """
import runpy, sys
from transformers.models.qwen2 import modeling_qwen2

forward = modeling_qwen2.Qwen2Model.forward
modeling_qwen2.Qwen2Model.forward = lambda self, *args, position_ids=None, **rest: forward(self, *args, **rest)
sys.argv[0] = "armada_train"
runpy.run_module("armada_train", run_name="__main__", alter_sys=True)
"""


def test_packing_is_refused_where_the_samples_of_a_row_see_each_other(
    chat_files: tuple[Path, Path], make_run: Any
) -> None:
    run = make_run(make_training(chat_files[0], train={"max_steps": 1, "packing": True}))
    ended = run.finish_python("-c", MEETING, "--spec", str(run.spec_file))
    assert ended.code == 2, ended.output
    assert run.failure["reason"] == "bad_spec"
    assert "packed row change each other in Qwen2ForCausalLM with attention sdpa" in run.failure["message"]
    assert not (run.path / "metrics.jsonl").exists()


def test_grouping_by_length_and_noise_are_switches(tmp_path: Path, make_run: Any) -> None:
    train = {"max_steps": 4, "group_by_length": True, "neftune_alpha": 5.0}
    run = make_run(make_training(write_jsonl(tmp_path / "t.jsonl", chats(32)), train=train))
    run.train()


@pytest.mark.parametrize(
    "lora",
    [
        pytest.param({"dora": True, "rslora": False}, id="dora"),
        pytest.param({"init": "pissa"}, id="pissa"),
        pytest.param({"init": "olora", "target_modules": ["q_proj", "v_proj"]}, id="olora"),
        pytest.param(None, id="every weight"),
    ],
)
def test_every_kind_of_adapter_learns_and_says_which_attention_it_had(
    chat_files: tuple[Path, Path], make_run: Any, lora: dict[str, Any] | None
) -> None:
    training = make_training(*chat_files, train={"max_steps": 3, "activation_checkpointing": True})
    training["lora"] = lora if lora is None else training["lora"] | lora
    run = make_run(training)
    ended = run.train()
    assert run.summary["eval_loss_after"] < run.summary["eval_loss_before"]
    assert (run.summary["attention"], run.summary["attention_why"]) == ("sdpa", "the run is on CPUs")
    assert "attention: sdpa (the run is on CPUs)" in ended.output


COMPILE_WITHOUT_INDUCTOR = """
import runpy, sys
import torch

compile = torch.compile


def compile_eagerly(model, **options):
    print("compiled by", options.pop("backend"), flush=True)
    return compile(model, **options, backend="eager")


torch.compile = compile_eagerly
sys.argv[0] = "armada_train"
runpy.run_module("armada_train", run_name="__main__", alter_sys=True)
"""


@pytest.mark.takes_long("the model is compiled")
def test_the_switch_compiles_and_the_captured_graph_has_the_losses_of_the_plain_model(
    chat_files: tuple[Path, Path], make_run: Any
) -> None:
    plain = make_run(make_training(chat_files[0], train={"max_steps": 2}), "plain")
    plain.train()
    captured = make_run(make_training(chat_files[0], train={"max_steps": 2, "compile": True}), "captured")
    ended = captured.finish_python("-c", COMPILE_WITHOUT_INDUCTOR, "--spec", str(captured.spec_file))
    assert ended.code == 0, ended.output
    assert "compiled by inductor" in ended.output
    assert captured.losses() == pytest.approx(plain.losses(), rel=1e-4)


# 178 s of CPU time. `make test` has the same switch and graph above, without the code that inductor generates.
@pytest.mark.long
@pytest.mark.skipif(not any(map(shutil.which, ("g++", "c++", "clang++"))), reason="torch.compile needs a C++ compiler")
def test_a_compiled_model_has_the_losses_of_the_plain_one(chat_files: tuple[Path, Path], make_run: Any) -> None:
    losses = []
    for compiled in (False, True):
        train = {"max_steps": 2, "compile": compiled}
        run = make_run(make_training(chat_files[0], train=train), f"compile-{compiled}")
        run.train()
        losses.append(run.losses())
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)


def test_rows_of_like_length_are_computed_together_and_steps_stay_mixed(payload_python: Interpreter) -> None:
    program = """
import random
from armada_train.data.sampling import LengthSampler
draw = random.Random(1)
lengths = [round(10 * 10 ** draw.random()) for _ in range(1003)]
orders = [list(LengthSampler(lengths, 8, seed, lambda: epoch)) for seed in (5, 6) for epoch in (0, 1)]
assert list(LengthSampler(lengths, 8, 5, lambda: 0)) == orders[0]
assert len({tuple(order) for order in orders}) == 4
for order in orders:
    assert sorted(order) == list(range(1003))
    assert lengths[order[0]] == max(lengths)
    batches = [[lengths[row] for row in order[at : at + 8]] for at in range(0, 1003, 8)]
    padded = sum(max(batch) * len(batch) for batch in batches)
    assert padded < 1.05 * sum(lengths), padded / sum(lengths)
    firsts = [batch[0] for batch in batches]
    alike = sum(abs(a - b) < 10 for a, b in zip(firsts, firsts[1:]))
    assert alike < 0.4 * len(batches), alike  # neighbours, which accumulate, are of any length
for count in (0, 1, 7, 8, 9):
    assert sorted(LengthSampler(lengths[:count], 8, 5, lambda: 0)) == list(range(count))
print("mixed")
"""
    assert payload_python.finish("-c", program).output == "mixed\n"
