from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from armada_train import checkpoints

from tests.payload.payload_run import PAYLOAD, PayloadRun, chat, chats, make_training, write_jsonl

pytestmark = pytest.mark.payload


def test_one_process_trains_and_the_loss_falls(undisturbed: PayloadRun) -> None:
    summary = undisturbed.summary
    assert summary["loss_last"] < 0.7 * summary["loss_first"]
    assert summary["eval_loss_after"] < 0.7 * summary["eval_loss_before"]
    assert summary["dropped_samples"] == 0
    assert undisturbed.heartbeat(0) | {"time": 0} == {
        "rank": 0, "phase": "ended", "step": 60, "total_steps": 60, "time": 0, "attempt": 1,
    }  # fmt: skip


def test_metrics_are_written_in_full_for_every_logged_step(undisturbed: PayloadRun) -> None:
    lines = undisturbed.lines("train")
    assert [line["step"] for line in lines] == [1, *range(5, 61, 5)]
    for line in lines:
        assert {
            "loss",
            "learning_rate",
            "grad_norm",
            "tokens_per_s",
            "step_time_s",
            "num_tokens",
            "epoch",
        } <= line.keys()
        assert line["attempt"] == 1
    assert [line["step"] for line in undisturbed.lines("eval")] == [0, 60]


def test_every_token_that_is_no_padding_is_counted(undisturbed: PayloadRun, payload_python: str) -> None:
    count = """
import json, sys
from transformers import AutoTokenizer
tokenizer = AutoTokenizer.from_pretrained(sys.argv[1])
rows = [json.loads(line) for line in open(sys.argv[2])]
print(sum(len(tokenizer.apply_chat_template(row["messages"])["input_ids"]) for row in rows))
"""
    train_file = undisturbed.training["data"]["train"][0]["path"]
    argv = [payload_python, "-c", count, str(undisturbed.path / "model"), train_file]
    tokens = int(subprocess.run(argv, capture_output=True, text=True, check=True).stdout)
    # 60 steps of 8 are 480 samples: the 64 rows seven and a half times
    at_epoch_ends = {line["epoch"]: line["num_tokens"] for line in undisturbed.lines("train")}
    assert at_epoch_ends[5.0] == 5 * tokens


def test_the_outbox_holds_every_checkpoint_although_the_trainer_rotated_them(undisturbed: PayloadRun) -> None:
    assert undisturbed.steps_in("checkpoints", "checkpoint-") == [50, 60]
    assert undisturbed.steps_in("outbox", ".new-") == [10, 20, 30, 40, 50, 60]
    for step in (10, 60):
        folder = undisturbed.path / "outbox" / f".new-{step}"
        announcement = json.loads((folder / ".announce.json").read_text())
        assert announcement["step"] == step
        assert announcement["kind"] == ("final" if step == 60 else "periodic")
        assert set(announcement["metrics"]) == (
            {"loss", "eval_loss", "best_step", "best_eval_loss"} if step == 60 else {"loss"}
        )
        assert (folder / "adapter_model.safetensors").stat().st_size > 0
        assert (folder / "base_model" / "model.safetensors").exists()
    assert not list((undisturbed.path / "outbox").glob(".part-*"))


def test_two_gloo_ranks_equal_one_process_with_twice_the_accumulation(
    undisturbed: PayloadRun, chat_files: tuple[Path, Path], make_run: Any
) -> None:
    batch = {"global": 8, "micro": 4, "accumulation": 1, "processes": 2}
    train = {"max_steps": 60, "log_every_steps": 5, "eval_every_steps": 20}
    run = make_run(make_training(*chat_files, batch=batch, train=train))
    ended = run.finish(launcher=True)
    assert ended.code == 0, ended.output
    assert run.losses() == pytest.approx(undisturbed.losses(), rel=1e-4)
    for name in ("eval_loss_before", "eval_loss_after"):
        assert run.summary[name] == pytest.approx(undisturbed.summary[name], rel=1e-4)
    tokens = {line["step"]: line["num_tokens"] for line in undisturbed.lines("train")}
    assert {line["step"]: line["num_tokens"] for line in run.lines("train")} == tokens
    assert [line["step"] for line in run.lines("eval")] == [0, 20, 40, 60]
    assert [run.heartbeat(rank)["phase"] for rank in (0, 1)] == ["ended", "ended"]
    assert (run.path / "outbox" / ".new-60" / "rng_state_1.pth").exists()


EVALUATE = """
import json, runpy, sys
import numpy as np
from armada_train.trainer import Trainer

once = Trainer.evaluate


def evaluate_all_ways(self, *given, **options):
    rows, lengths = self.eval_dataset, self._eval_lengths
    for size in (1, 2, 4, 8):
        for seed in range(4):
            order = np.random.default_rng(seed).permutation(len(rows))
            self.eval_dataset, self._eval_lengths = rows.select(order), lengths[order]
            self.args.per_device_eval_batch_size = size
            loss, tokens = self.evaluate_token_weighted()
            if self._run.is_main:
                print("evaluated", json.dumps([size, seed, loss, tokens]), flush=True)
    self.eval_dataset, self._eval_lengths = rows, lengths
    return once(self, *given, **options)


Trainer.evaluate = evaluate_all_ways
sys.argv[0] = "armada_train"
runpy.run_module("armada_train", run_name="__main__", alter_sys=True)
"""


def evaluate_all_ways(run: PayloadRun, program: Path) -> tuple[dict[tuple[int, int], float], set[int]]:
    """Evaluate in four batch sizes and four orders; the losses by both, and the numbers of tokens."""
    processes = str(run.training["batch"]["processes"])
    argv = [run.python, *("-m", "torch.distributed.run", "--nproc_per_node", processes, "--rdzv_backend", "c10d")]
    argv += [*("--rdzv_endpoint", "localhost:0"), str(program), "--spec", str(run.path / "spec.json")]
    environment = {**os.environ, "PYTHONPATH": str(PAYLOAD), "ARMADA_ATTEMPT": "1", "OMP_NUM_THREADS": "1"}
    ended = subprocess.run(argv, check=False, capture_output=True, text=True, cwd=run.path / "work", env=environment)
    assert ended.returncode == 0, ended.stderr
    found = [json.loads(line.partition(" ")[2]) for line in ended.stdout.splitlines() if line.startswith("evaluated ")]
    return {(size, seed): loss for size, seed, loss, _ in found[:16]}, {tokens for *_, tokens in found}


def test_the_eval_loss_does_not_depend_on_batch_size_order_or_number_of_ranks(
    undisturbed: PayloadRun, tmp_path: Path, make_run: Any
) -> None:
    rows = [chat("Why?" + " Tell me." * (n % 7), f"It is {n}" + " and so on" * (n % 11)) for n in range(47)]
    evaluation = write_jsonl(tmp_path / "eval.jsonl", rows)
    (tmp_path / "evaluate.py").write_text(EVALUATE)
    losses: list[float] = []
    counts: set[int] = set()
    for processes in (1, 2):
        batch = {"global": 8, "micro": 4, "accumulation": 2 // processes, "processes": processes}
        training = make_training(Path(undisturbed.training["data"]["train"][0]["path"]), evaluation, batch=batch)
        training["model"] = {"path": str(undisturbed.path / "model")}
        training["train"]["max_steps"] = 1
        ways, tokens = evaluate_all_ways(make_run(training, f"of-{processes}"), tmp_path / "evaluate.py")
        assert len(ways) == 16
        losses += ways.values()
        counts |= tokens
    assert len(counts) == 1
    assert max(losses) == pytest.approx(min(losses), rel=1e-6)


def test_overlong_samples_are_dropped_and_counted(tmp_path: Path, make_run: Any) -> None:
    long_rows = [chat("Say it.", "word " * 300)] * 3
    sharegpt = {"conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Hello"}], "id": 7}
    train = write_jsonl(tmp_path / "train.jsonl", [*chats(20), *long_rows, sharegpt])
    evaluation = write_jsonl(tmp_path / "eval.jsonl", [*chats(4), long_rows[0]])
    lora = {"dora": True}  # and DoRA under bf16, while a model is being trained anyway
    schedule = {"max_steps": 2, "drop_limit": 0.5}
    run = make_run(make_training(train, evaluation, train=schedule, lora=lora, precision="bf16"))
    ended = run.finish()
    assert ended.code == 0, ended.output
    assert run.summary["dropped_samples"] == 4
    assert "3 of 24 train rows dropped: 3 longer than max_length 256" in run.summary["findings"]
    assert "finding: 3 of 24 train rows dropped: 3 longer than max_length 256" in ended.output
    assert "finding: 1 of 5 eval rows dropped: 1 longer than max_length 256" in ended.output
    assert "finding: keys in the rows that are not used: id (1)" in ended.output


def test_prompts_with_completions_train_the_whole_model_beside_a_project_with_its_own_datasets_module(
    tmp_path: Path, make_run: Any
) -> None:
    rows = [{"prompt": f"{n} plus one is ", "completion": f"{n + 1}"} for n in range(32)]
    training = make_training(write_jsonl(tmp_path / "train.jsonl", rows), lora=None)
    training["data"]["train"].append({"path": str(write_jsonl(tmp_path / "more.jsonl", rows[:10])), "weight": 2.5})
    run = make_run(training)
    (run.path / "work" / "datasets.py").write_text("raise RuntimeError('this is the project, not the library')")
    run.environment = {"PYTHONSAFEPATH": "", "PYTHONPATH": f"{PAYLOAD}:{run.path / 'work'}"}
    ended = run.finish()
    assert ended.code == 0, ended.output
    assert run.summary["loss_last"] < run.summary["loss_first"]
    assert run.summary["eval_loss_before"] is None
    assert "57 training rows" in ended.output  # 32, and 10 two and a half times
    assert (run.path / "outbox" / ".new-20" / "model.safetensors").exists()


def test_a_loss_that_is_no_number_ends_the_run_and_spoils_no_checkpoint(
    chat_files: tuple[Path, Path], make_run: Any
) -> None:
    # The first step of a warm-up moves nothing, the next ones throw the weights out of the world.
    train = {"learning_rate": 1e30, "max_steps": 50, "log_every_steps": 25, "max_grad_norm": 1e30, "warmup_steps": 2}
    run = make_run(make_training(chat_files[0], train=train, checkpoint={"every_steps": 1, "keep_last": 9}))
    ended = run.finish()
    assert ended.code == 1, ended.output
    assert run.failure["reason"] == "nan_loss"
    assert run.steps_in("outbox", ".new-")[0] == 1
    assert run.steps_in("checkpoints", "checkpoint-")[0] == 1
    assert checkpoints.find_defect(run.path / "checkpoints" / "checkpoint-1") is None
    shown = """
import sys
from safetensors.torch import load_file
print(all(bool(w.isfinite().all()) for path in sys.argv[1:] for w in load_file(path).values()))
"""
    files = [str(path) for path in (run.path / "outbox").glob("*/adapter_model.safetensors")]
    argv = [run.python, "-c", shown, *files]
    assert subprocess.run(argv, capture_output=True, text=True, check=True).stdout == "True\n"


def test_memory_that_runs_out_ends_with_oom_and_a_batch_that_is_the_same_with_less_of_it(
    tmp_path: Path, make_run: Any
) -> None:
    # Eager attention over 8 × 2 heads × 8000² scores wants 4 GB at once, and the process may have 3 more than it starts with.
    rows = write_jsonl(tmp_path / "rows.jsonl", [{"text": "a b c d " * 4000}] * 16)
    train = {"max_length": 8000, "long_samples": "truncate", "max_steps": 1}
    batch = {"global": 8, "micro": 8, "accumulation": 1, "processes": 1}
    run = make_run(make_training(rows, train=train, batch=batch, attention="eager"))
    process = run.start(limit_data_bytes=3 << 30)
    output, _ = process.communicate(timeout=400)
    assert process.returncode == 1, output
    assert run.failure["reason"] == "oom"
    assert run.heartbeat(0)["phase"] == "training"
    assert run.failure["message"].startswith(
        "out of memory at micro batch 8; train.micro_batch_size: 4 with accumulation 2 keeps the global batch of 8. "
    )
