from __future__ import annotations

import json
import random
import resource
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from armada_agent.runs.beside_work import is_ours
from armada_train.checkpoints import complete

from tests.payload.interpreter import PAYLOAD, Interpreter, wait_for_end
from tests.payload.payload_run import PayloadRun, chat, chats, make_training, says_who_exchanged, write_jsonl

pytestmark = pytest.mark.payload


def test_one_process_trains_and_the_loss_falls(undisturbed: PayloadRun) -> None:
    summary = undisturbed.summary
    assert summary["loss_last"] < 0.7 * summary["loss_first"]
    assert summary["eval_loss_after"] < 0.7 * summary["eval_loss_before"]
    assert summary["dropped_samples"] == 0
    assert undisturbed.heartbeat(0) | {"time": 0} == {
        "rank": 0, "phase": "ended", "step": 12, "total_steps": 12, "time": 0, "attempt": 1,
    }  # fmt: skip


def test_an_agent_knows_what_a_training_puts_into_its_folder(undisturbed: PayloadRun) -> None:
    assert [path.name for path in undisturbed.path.iterdir() if not is_ours(path.name, of_task=True)] == []


def test_metrics_are_written_in_full_for_every_logged_step(undisturbed: PayloadRun) -> None:
    lines = undisturbed.lines("train")
    assert [line["step"] for line in lines] == [1, *range(2, 13, 2)]
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
    assert [line["step"] for line in undisturbed.lines("eval")] == [0, 12]


def test_every_token_that_is_no_padding_is_counted(undisturbed: PayloadRun, payload_python: Interpreter) -> None:
    count = """
import json, sys
from transformers import AutoTokenizer
tokenizer = AutoTokenizer.from_pretrained(sys.argv[1])
rows = [json.loads(line) for line in open(sys.argv[2])]
print(sum(len(tokenizer.apply_chat_template(row["messages"])["input_ids"]) for row in rows))
"""
    train_file = undisturbed.training["data"]["train"][0]["path"]
    counted = payload_python.finish("-c", count, str(undisturbed.path / "model"), train_file)
    # 12 steps of 8 are 96 samples: the 64 rows one and a half times
    at_epoch_ends = {line["epoch"]: line["num_tokens"] for line in undisturbed.lines("train")}
    assert at_epoch_ends[1.0] == int(counted.output.split()[-1])


def test_the_outbox_holds_every_checkpoint_although_the_trainer_rotated_them(undisturbed: PayloadRun) -> None:
    assert undisturbed.steps_in("checkpoints", "checkpoint-") == [8, 12]
    assert undisturbed.steps_in("outbox", ".new-") == [4, 8, 12]
    for step in (4, 12):
        folder = undisturbed.path / "outbox" / f".new-{step}"
        announcement = json.loads((folder / ".announce.json").read_text())
        assert announcement["step"] == step
        assert announcement["kind"] == ("final" if step == 12 else "periodic")
        assert set(announcement["metrics"]) == (
            {"loss", "eval_loss", "best_step", "best_eval_loss"} if step == 12 else {"loss"}
        )
        assert (folder / "adapter_model.safetensors").stat().st_size > 0
        assert (folder / "base_model" / "model.safetensors").exists()
    assert not list((undisturbed.path / "outbox").glob(".part-*"))


def test_two_gloo_ranks_equal_one_process_with_twice_the_accumulation(
    undisturbed: PayloadRun, chat_files: tuple[Path, Path], make_run: Any
) -> None:
    batch = {"global": 8, "micro": 4, "accumulation": 1, "processes": 2}
    train = undisturbed.training["train"] | {"eval_every_steps": 4}
    run = make_run(make_training(*chat_files, batch=batch, train=train, checkpoint={"every_steps": 6}))
    run.train(launcher=True)
    assert run.losses() == pytest.approx(undisturbed.losses(), rel=1e-4)
    for name in ("eval_loss_before", "eval_loss_after"):
        assert run.summary[name] == pytest.approx(undisturbed.summary[name], rel=1e-4)
    tokens = {line["step"]: line["num_tokens"] for line in undisturbed.lines("train")}
    assert {line["step"]: line["num_tokens"] for line in run.lines("train")} == tokens
    assert [line["step"] for line in run.lines("eval")] == [0, 4, 8, 12]
    assert [run.heartbeat(rank)["phase"] for rank in (0, 1)] == ["ended", "ended"]
    assert (run.path / "outbox" / ".new-12" / "rng_state_1.pth").exists()
    says_who_exchanged(run)


EVALUATE = """
import json, os, runpy, sys
from armada_train.training.trainer import Trainer

once = Trainer.evaluate


def evaluate_all_ways(self, *given, **options):
    for size in (1, 2, 4, 8):
        self.args.per_device_eval_batch_size = size
        loss, tokens, _ = self.evaluate_weighted()
        if os.environ.get("RANK", "0") == "0":
            print("evaluated", json.dumps([size, loss, tokens]), flush=True)
    return once(self, *given, **options)


Trainer.evaluate = evaluate_all_ways
sys.argv[0] = "armada_train"
runpy.run_module("armada_train", run_name="__main__", alter_sys=True)
"""


def evaluate_all_ways(run: PayloadRun, program: Path) -> tuple[list[float], set[int]]:
    """Evaluate in four batch sizes, before and after the one step; the losses before it, and the numbers of tokens."""
    processes = str(run.training["batch"]["processes"])
    launcher = ["-m", "torch.distributed.run", "--nproc_per_node", processes, "--rdzv_backend", "c10d"]
    launcher += ["--rdzv_endpoint", "localhost:0"]
    ended = run.finish_python(*launcher, str(program), "--spec", str(run.spec_file))
    assert ended.code == 0, ended.output
    found = [json.loads(line.partition(" ")[2]) for line in ended.output.splitlines() if line.startswith("evaluated ")]
    assert [size for size, *_ in found] == [1, 2, 4, 8] * 2
    return [loss for _, loss, _ in found[:4]], {tokens for *_, tokens in found}


@pytest.mark.takes_long("three trainings, one with two ranks, each of which evaluates in four ways")
def test_the_eval_loss_does_not_depend_on_batch_size_order_or_number_of_ranks(
    undisturbed: PayloadRun, tmp_path: Path, make_run: Any
) -> None:
    rows = [chat("Why?" + " Tell me." * (n % 7), f"It is {n}" + " and so on" * (n % 11)) for n in range(47)]
    (tmp_path / "evaluate.py").write_text(EVALUATE)
    losses: list[float] = []
    counts: set[int] = set()
    for name, processes in (("one", 1), ("another-order", 1), ("two", 2)):
        random.Random(name).shuffle(rows)
        evaluation = write_jsonl(tmp_path / f"eval-{name}.jsonl", rows)
        batch = {"global": 8, "micro": 4, "accumulation": 2 // processes, "processes": processes}
        training = make_training(Path(undisturbed.training["data"]["train"][0]["path"]), evaluation, batch=batch)
        training["model"] = {"path": str(undisturbed.path / "model")}
        training["train"]["max_steps"] = 1
        ways, tokens = evaluate_all_ways(make_run(training, name), tmp_path / "evaluate.py")
        losses += ways
        counts |= tokens
    assert len(losses) == 12
    assert len(counts) == 1
    assert max(losses) == pytest.approx(min(losses), rel=1e-6)


def test_an_adapters_base_is_named_as_home_names_it_and_it_is_resumed_all_the_same(
    undisturbed: PayloadRun, chat_files: tuple[Path, Path], make_run: Any
) -> None:
    training = make_training(chat_files[0], train={"max_steps": 2}, checkpoint={"every_steps": 1})
    training["model"] = {"path": str(undisturbed.path / "model"), "name": "/home/me/model"}
    run = make_run(training)
    run.train()
    last = run.path / "checkpoints" / "checkpoint-2"
    for folder in (last, run.path / "outbox" / ".new-2"):
        assert json.loads((folder / "adapter_config.json").read_text())["base_model_name_or_path"] == "/home/me/model"
        shutil.rmtree(folder)
    run.attempt = 2
    assert "resuming from checkpoint-1" in run.train().output


def test_overlong_samples_are_dropped_and_counted(tmp_path: Path, make_run: Any) -> None:
    long_rows = [chat("Say it.", "word " * 300)] * 3
    sharegpt = {"conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Hello"}], "id": 7}
    train = write_jsonl(tmp_path / "train.jsonl", [*chats(20), *long_rows, sharegpt])
    evaluation = write_jsonl(tmp_path / "eval.jsonl", [*chats(4), long_rows[0]])
    lora = {"dora": True}  # and DoRA under bf16, while a model is being trained anyway
    schedule = {"max_steps": 2, "drop_limit": 0.5}
    run = make_run(make_training(train, evaluation, train=schedule, lora=lora, precision="bf16"))
    ended = run.train()
    assert run.summary["dropped_samples"] == 4
    assert "3 of 24 train rows dropped: 3 longer than max_length 256" in run.summary["findings"]
    assert "finding: 3 of 24 train rows dropped: 3 longer than max_length 256" in ended.output
    assert "finding: 1 of 5 eval rows dropped: 1 longer than max_length 256" in ended.output
    assert "finding: unused keys in the rows: id (1)" in ended.output


def test_prompts_with_completions_train_the_whole_model_beside_a_project_with_its_own_datasets_module(
    tmp_path: Path, make_run: Any
) -> None:
    rows = [{"prompt": f"{n} plus one is ", "completion": f"{n + 1}"} for n in range(32)]
    train = {"max_steps": 8}
    training = make_training(write_jsonl(tmp_path / "train.jsonl", rows), lora=None, train=train)
    training["data"]["train"].append({"path": str(write_jsonl(tmp_path / "more.jsonl", rows[:10])), "weight": 2.5})
    run = make_run(training)
    (run.path / "work" / "datasets.py").write_text("raise RuntimeError('this is the project, not the library')")
    run.environment = {"PYTHONSAFEPATH": "", "PYTHONPATH": f"{PAYLOAD}:{run.path / 'work'}"}
    ended = run.train(fresh=True)  # a forked one has imported the library
    assert run.summary["loss_last"] < 0.9 * run.summary["loss_first"]
    assert run.summary["eval_loss_before"] is None
    assert "57 training rows" in ended.output  # 32, and 10 two and a half times
    assert (run.path / "outbox" / ".new-8" / "model.safetensors").exists()


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
    assert complete.find_defect(run.path / "checkpoints" / "checkpoint-1") is None
    look = """
import sys
from safetensors.torch import load_file
print(all(bool(w.isfinite().all()) for path in sys.argv[1:] for w in load_file(path).values()))
"""
    files = [str(path) for path in (run.path / "outbox").glob("*/adapter_model.safetensors")]
    assert run.finish_python("-c", look, *files).output == "True\n"


def test_a_loss_that_is_no_number_is_noticed_at_its_step_and_not_at_the_next_line_of_the_log(
    chat_files: tuple[Path, Path], make_run: Any
) -> None:
    # The second step moves the weights out of the world, the third meets them.
    train = {"learning_rate": 1e30, "max_steps": 50, "log_every_steps": 25, "max_grad_norm": 1e30, "warmup_steps": 2}
    run = make_run(make_training(chat_files[0], train=train, checkpoint={"every_steps": 50}))
    assert run.finish().code == 1
    assert run.failure == {
        "reason": "nan_loss",
        "message": "the loss is not a number at step 3; checkpoints written before it are kept",
    }
    assert list(run.losses()) == [1]


def test_of_several_ranks_the_earliest_step_whose_loss_is_no_number_is_named(payload_python: Interpreter) -> None:
    code = """
import torch
from armada_train.training.loss_watch import LossWatch, nan_loss
watches = {step: LossWatch(torch.device("cpu")) for step in (None, 4, 3)}
for step in range(1, 6):
    for broken, watch in watches.items():
        for micro in range(2):
            watch.take(torch.tensor(float("nan") if step == broken and micro == 0 else 1.0))
        watch.end_step(step)
    urgency = max(watch.urgency for watch in watches.values())
    print(step, nan_loss(urgency).message.partition(";")[0] if urgency else "fine")
watches[None].settle(5)
print(watches[None].urgency)
"""
    told = payload_python.finish("-c", code).output.splitlines()
    broken = "the loss is not a number at step 3"
    assert told == ["1 fine", "2 fine", f"3 {broken}", f"4 {broken}", f"5 {broken}", "0"]


def test_a_disk_that_fills_while_a_checkpoint_is_saved_is_said_and_the_last_complete_one_stays(
    chat_files: tuple[Path, Path], make_run: Any
) -> None:
    run = make_run(
        make_training(chat_files[0], train={"max_steps": 40}, checkpoint={"every_steps": 1, "keep_last": 99})
    )
    disk = run.path / "checkpoints"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(disk)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("only root mounts a disk that is small")
    try:
        ended = run.finish()
        saved = run.steps_in("checkpoints", "checkpoint-")
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)
    assert ended.code == 1, ended.output
    assert run.failure["reason"] == "disk_full"
    assert f"the disk is full: checkpoint-{saved[-1] + 1} could not be saved in {disk} (" in run.failure["message"]
    assert f"checkpoint-{saved[-1]} is the last complete one" in run.failure["message"]
    assert saved == run.steps_in("outbox", ".new-")


def test_memory_that_runs_out_ends_with_its_name_and_a_batch_that_is_the_same_with_less_of_it(
    tmp_path: Path, make_run: Any
) -> None:
    # Eager attention over 8 × 2 heads × 8000² scores wants 4 GB at once, and the process may have 3 in all.
    rows = write_jsonl(tmp_path / "rows.jsonl", [{"text": "a b c d " * 4000}] * 8)
    train = {"max_length": 8000, "long_samples": "truncate", "max_steps": 1}
    batch = {"global": 8, "micro": 8, "accumulation": 1, "processes": 1}
    run = make_run(make_training(rows, train=train, batch=batch, attention="eager"))
    process = run.start()
    resource.prlimit(
        process.pid, resource.RLIMIT_DATA, (3 << 30, 3 << 30)
    )  # as a container would limit what it may use
    ended = wait_for_end(process)
    assert ended.code == 1, ended.output
    assert run.failure["reason"] == "host_oom"
    assert run.heartbeat(0)["phase"] == "training"
    assert run.failure["message"].startswith(
        "out of memory at micro batch 8; train.micro_batch_size: 4 with accumulation 2 keeps the global batch of 8. "
    )
