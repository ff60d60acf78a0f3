"""Evaluation sets with names, in real trainings."""

from __future__ import annotations

import copy
import json
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
    run = PayloadRun(folder / "run", payload_python, training).prepare()
    run.train()
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
    names = {"eval_loss", "eval_tokens", "eval_seconds", "eval_short_loss", "eval_long_loss"}
    assert {key for key in lines[0] if key.startswith("eval_")} == names
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


def test_a_resume_that_is_told_another_metric_counts_the_best_anew(by_name: PayloadRun, tmp_path: Path) -> None:
    shutil.copytree(by_name.path, tmp_path / "run")
    run = PayloadRun(tmp_path / "run", by_name.python, copy.deepcopy(by_name.training), attempt=2)
    run.training["train"] |= {"best_metric": {"name": "eval_short_loss"}, "max_steps": 8, "stop_early": None}
    run.training["train"]["lr_scheduler"] = "constant"
    run.training["resume"] = {"accept_changes": True}
    run.write_spec()
    assert "resuming from checkpoint-6" in run.train().output
    by_step = {line["step"]: line["eval_short_loss"] for line in run.lines("eval") if line["step"]}
    assert run.summary["best_step"] == min(by_step, key=by_step.__getitem__) > 2


def test_no_sets_loss_depends_on_the_batch(by_name: PayloadRun, tmp_path: Path, make_run: Any) -> None:
    training = {
        **by_name.training,
        "train": {**by_name.training["train"], "max_steps": 1, "stop_early": None, "eval_every_steps": None},
    }
    check_all_ways(evaluated_all_ways(make_run(training), tmp_path / "evaluate.py"), by_name)


@pytest.mark.long
def test_no_sets_loss_depends_on_the_number_of_ranks(by_name: PayloadRun, tmp_path: Path, make_run: Any) -> None:
    batch = {"global": 8, "micro": 4, "accumulation": 1, "processes": 2}
    training = {
        **by_name.training,
        "train": {**by_name.training["train"], "max_steps": 1, "stop_early": None},
        "batch": batch,
    }
    check_all_ways(evaluated_all_ways(make_run(training), tmp_path / "evaluate.py"), by_name)


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
