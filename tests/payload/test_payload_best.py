"""What an evaluation says of a checkpoint, and which checkpoints stay for it, in real trainings."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from armada_agent.outbox import finishing
from armada_agent.paths import RunPaths
from armada_train.specification.early_stop import Best

from tests.payload.conftest import StartedRun
from tests.payload.interpreter import Interpreter
from tests.payload.payload_run import PayloadRun, make_training

pytestmark = pytest.mark.payload

NO_NUMBER = """
import math, runpy, sys
from armada_train.training.trainer import Trainer

once = Trainer.evaluate_weighted


def evaluate_weighted(self):
    loss, weight, curves = once(self)
    return (loss if self.state.global_step == 0 else math.nan), weight, curves


Trainer.evaluate_weighted = evaluate_weighted
sys.argv[0] = "armada_train"
runpy.run_module("armada_train", run_name="__main__", alter_sys=True)
"""


def test_a_checkpoint_whose_evaluation_is_no_number_is_finished_without_it(
    payload_python: Interpreter, chat_files: tuple[Path, Path], tmp_path: Path
) -> None:
    train = {"max_steps": 4, "eval_every_steps": 2}
    training = make_training(*chat_files, train=train, checkpoint={"every_steps": 2, "keep_last": 3})
    run = PayloadRun(tmp_path / "runs" / "a-test-1", payload_python, training).prepare()
    (tmp_path / "no_number.py").write_text(NO_NUMBER)
    ended = run.finish_python(str(tmp_path / "no_number.py"), "--spec", str(run.spec_file))
    assert ended.code == 0, ended.output
    (finding,) = run.summary["findings"]
    assert finding.startswith("step 2: the evaluation's loss is nan")
    assert f"finding: {finding}" in ended.output
    paths = RunPaths(str(tmp_path), "a-test-1")
    digests = [finishing.publish(paths, folder, 1, lambda: 5.0) for folder in paths.announced()]
    manifests = [json.loads(Path(paths.checkpoint(digest, "MANIFEST.json")).read_text()) for digest in digests]
    assert {each["step"]: set(each["metrics"]) for each in manifests} == {2: {"loss"}, 4: {"loss"}}


UP_AND_DOWN = """
import os, signal


def quality(completions, step):
    if step == 5 and os.environ["ARMADA_ATTEMPT"] == "1":
        os.kill(os.getpid(), signal.SIGTERM)
    return {0: 0.0, 1: 1.0, 2: 2.0, 3: 3.0, 4: 4.0, 5: 5.0}.get(step, 0.0)
"""


@pytest.mark.parametrize("in_background", [False, True])
def test_the_last_checkpoint_stays_beside_the_best_one_whose_successor_was_not_saved(
    make_run: StartedRun, chat_files: tuple[Path, Path], in_background: bool
) -> None:
    """The best evaluation is that of step 5, and the best checkpoint that of step 4: with a limit of one, 6 and 8 are more."""
    train = {"max_steps": 8, "eval_every_steps": 1, "best_metric": {"name": "eval_quality", "goal": "max"}}
    saved = {"every_steps": 2, "keep_last": 1, "in_background": in_background}
    evaluation = {"function": "measure:quality", "prompts": 1, "sample_tokens": 1}
    run = make_run(make_training(*chat_files, train=train, checkpoint=saved, evaluation=evaluation))
    (run.path / "work" / "measure.py").write_text(UP_AND_DOWN)
    ended = run.finish()
    assert ended.code == 85, ended.output
    assert run.steps_in("checkpoints", "checkpoint-") == [4, 6]
    run.attempt = 2
    assert "resuming from checkpoint-6" in run.train().output
    assert run.steps_in("checkpoints", "checkpoint-") == [4, 8]


@pytest.mark.parametrize("rises", [False, True])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_what_is_no_number_is_never_the_best(value: float, rises: bool) -> None:
    log = [{"step": 2, "eval_loss": value}, {"step": 4, "eval_loss": 3.0}]
    assert Best(rises=rises).find(log[:1], 10) is None
    assert Best(rises=rises).find(log, 10) == (3.0, 4)
