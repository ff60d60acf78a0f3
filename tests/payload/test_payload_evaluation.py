"""Evaluation sets with names, the best metric and the user's function, in real trainings."""

from __future__ import annotations

import copy
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.payload.interpreter import Interpreter
from tests.payload.payload_run import PayloadRun, chats, make_training, write_jsonl

pytestmark = pytest.mark.payload

EVALUATE = """
import json, os, runpy, sys
from armada_train.training.trainer import Trainer

once = Trainer.evaluate


def evaluate_all_ways(self, *given, **options):
    for size in (1, 3, 8):
        self.args.per_device_eval_batch_size = size
        whole = self.evaluate_weighted()
        if os.environ.get("RANK", "0") == "0":
            print("evaluated", json.dumps([whole[:2], {name: found[:2] for name, found in self._evaluated.items()}]), flush=True)
    return once(self, *given, **options)


Trainer.evaluate = evaluate_all_ways
sys.argv[0] = "armada_train"
runpy.run_module("armada_train", run_name="__main__", alter_sys=True)
"""

FUNCTION = """
import random
import numpy as np
import torch


def quality(prompts, completions, rows, expected, step, eval_set):
    random.seed(1), np.random.seed(1), torch.manual_seed(1)
    random.random(), np.random.rand(), torch.rand(3)
    for prompt, row, answer in zip(prompts, rows, expected, strict=True):
        assert prompt == row["messages"][:1] and answer == row["messages"][1]["content"], (prompt, row, answer)
    if step == 4 and eval_set == "long":
        raise ValueError("not today")
    return {"length": [len(text) for text in completions], "asked": len(prompts)}
"""


def two_sets(folder: Path) -> list[dict[str, str]]:
    """The rows of `chat_files`' evaluation, as two sets, the first of which has two files."""
    rows = chats(13)
    files = {"short": rows[:4], "more": rows[4:6], "long": rows[6:]}
    paths = {name: write_jsonl(folder / f"{name}.jsonl", some) for name, some in files.items()}
    named = [("short", "short"), ("short", "more"), ("long", "long")]
    return [{"path": str(paths[file]), "set": name} for name, file in named]


@pytest.fixture(scope="module")
def by_name(
    payload_python: Interpreter, chat_files: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory
) -> PayloadRun:
    """Two evaluation sets. The best is the highest loss of the second one, which no later evaluation reaches again."""
    folder = tmp_path_factory.mktemp("by-name")
    train = {"max_steps": 20, "eval_every_steps": 2, "best_metric": {"name": "eval_long_loss", "goal": "max"}}
    train |= {"stop_early": {"metric": "eval_long_loss", "goal": "max", "patience": 2}}
    saved = {"every_steps": 2, "keep_last": 1}
    training = make_training(chat_files[0], train=train, data={"eval": two_sets(folder)}, checkpoint=saved)
    training |= {"evaluation": {"function": "measure:quality", "prompts": 3, "sample_tokens": 6, "temperature": 0.9}}
    training["lora"]["dropout"] = 0.1
    run = with_function(PayloadRun(folder / "run", payload_python, training).prepare())
    run.train()
    return run


def with_function(run: PayloadRun) -> PayloadRun:
    (run.path / "work" / "measure.py").write_text(FUNCTION)
    return run


def evaluated_all_ways(run: PayloadRun, program: Path) -> list[Any]:
    program.write_text(EVALUATE)
    processes = str(run.training["batch"]["processes"])
    launcher = ["-m", "torch.distributed.run", "--nproc_per_node", processes, "--rdzv_backend", "c10d"]
    launcher += ["--rdzv_endpoint", "localhost:0"]
    words = [str(program), "--spec", str(run.spec_file)]
    ended = run.finish_python(*(launcher if processes != "1" else []), *words)
    assert ended.code == 0, ended.output
    lines = [line.partition(" ")[2] for line in ended.output.splitlines() if line.startswith("evaluated ")]
    return [json.loads(line) for line in lines]


def test_each_set_has_a_loss_and_all_together_have_that_of_their_rows(
    by_name: PayloadRun, undisturbed: PayloadRun
) -> None:
    lines = by_name.lines("eval")
    assert [line["step"] for line in lines] == [0, 2, 4, 6]
    names = {
        "eval_loss",
        "eval_tokens",
        "eval_seconds",
        "eval_short_loss",
        "eval_long_loss",
        "eval_without_improvement",
    }
    assert {key for key in lines[2] if key.startswith("eval_")} == names
    alone = undisturbed.lines("eval")[0]  # the same model, and the same rows in one set without a name
    assert lines[0]["eval_tokens"] == alone["eval_tokens"]
    assert lines[0]["eval_loss"] == pytest.approx(alone["eval_loss"], rel=1e-6)
    assert lines[0]["eval_short_loss"] != lines[0]["eval_long_loss"]
    assert not [
        key for line in undisturbed.lines("eval") for key in line if key.endswith("_loss") and key != "eval_loss"
    ]


def test_the_best_and_the_end_go_by_the_metric_and_the_direction_that_were_asked_for(by_name: PayloadRun) -> None:
    by_step = {line["step"]: line["eval_long_loss"] for line in by_name.lines("eval") if line["step"]}
    assert by_step[2] > by_step[4] > by_step[6]
    said = "stopped early at step 6: eval_long_loss did not rise for 2 evaluations; best "
    assert by_name.summary["stopped_early"] == f"{said}{by_step[2]:.4g} at 2"
    assert by_name.summary["best_step"] == 2
    assert by_name.steps_in("checkpoints", "checkpoint-") == [2, 6]
    announced = json.loads((by_name.path / "outbox" / ".new-6" / ".announce.json").read_text())["metrics"]
    assert announced["best_eval_long_loss"] == by_step[2]
    assert announced["best_step"] == 2


def test_the_function_measures_answers_of_each_set_and_of_all(by_name: PayloadRun) -> None:
    lines = {line["step"]: line for line in by_name.lines("eval")}
    asked = {"short": 3, "long": 3}  # of 6 and of 7 rows
    for name, prompts in asked.items():
        assert lines[0][f"eval_{name}_asked"] == prompts
        assert lines[0][f"eval_{name}_length"] > 0
    assert lines[0]["eval_asked"] == 3
    mean = (lines[0]["eval_short_length"] + lines[0]["eval_long_length"]) / 2
    assert lines[0]["eval_length"] == pytest.approx(mean)
    assert lines[0]["eval_length"] != lines[6]["eval_length"]


def test_a_function_that_fails_later_costs_its_numbers_and_is_named_with_the_row(by_name: PayloadRun) -> None:
    lines = {line["step"]: line for line in by_name.lines("eval")}
    assert not {"eval_length", "eval_short_length", "eval_asked"} & lines[4].keys()
    assert {"eval_loss", "eval_long_loss"} < lines[4].keys()
    (finding,) = by_name.summary["findings"]
    assert "step 4: evaluation function measure:quality raised ValueError: not today; for the prompt of " in finding
    assert re.search(r"long\.jsonl:[1-7] \(", finding)


def test_a_resume_ignores_the_function_and_counts_the_best_by_another_metric(
    by_name: PayloadRun, tmp_path: Path
) -> None:
    shutil.copytree(by_name.path, tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "checkpoints" / "checkpoint-6")
    run = PayloadRun(tmp_path / "run", by_name.python, copy.deepcopy(by_name.training), attempt=2)
    run.training["train"]["best_metric"] = {"name": "eval_short_loss"}
    run.training["evaluation"] = None  # it draws and seeds random numbers; dropout must draw the same with and without
    run.write_spec()
    assert "resuming from checkpoint-2" in run.train().output
    weights = [r.path / "checkpoints" / "checkpoint-6" / "adapter_model.safetensors" for r in (run, by_name)]
    assert weights[0].read_bytes() == weights[1].read_bytes()
    by_step = {line["step"]: line["eval_short_loss"] for line in run.lines("eval") if line["step"]}
    assert run.summary["best_step"] == min(by_step, key=by_step.__getitem__) == 6


def test_no_sets_loss_depends_on_the_batch(by_name: PayloadRun, tmp_path: Path, make_run: Any) -> None:
    training = {
        **by_name.training,
        "train": {**by_name.training["train"], "max_steps": 1, "stop_early": None, "eval_every_steps": None},
    }
    check_all_ways(evaluated_all_ways(with_function(make_run(training)), tmp_path / "evaluate.py"), by_name)


@pytest.mark.long
def test_no_sets_loss_depends_on_the_number_of_ranks(by_name: PayloadRun, tmp_path: Path, make_run: Any) -> None:
    batch = {"global": 8, "micro": 4, "accumulation": 1, "processes": 2}
    training = {
        **by_name.training,
        "train": {**by_name.training["train"], "max_steps": 1, "stop_early": None},
        "batch": batch,
    }
    run = with_function(make_run(training))
    check_all_ways(evaluated_all_ways(run, tmp_path / "evaluate.py"), by_name)
    assert run.lines("eval")[0]["eval_length"] == by_name.lines("eval")[0]["eval_length"]


def check_all_ways(found: list[Any], by_name: PayloadRun) -> None:
    """Compare evaluations of one model in several batch sizes with each other, and with what the training wrote."""
    line, before = by_name.lines("eval")[0], found[:3]
    assert len(found) == 6
    for (loss, tokens), sets in before:
        assert loss == pytest.approx(line["eval_loss"], rel=1e-6)
        assert tokens == line["eval_tokens"] == sum(weight for _, weight in sets.values())
        assert sum(part * weight for part, weight in sets.values()) / tokens == pytest.approx(loss, rel=1e-9)
        for name in ("short", "long"):
            assert sets[name][0] == pytest.approx(line[f"eval_{name}_loss"], rel=1e-6)
