"""What an evaluation says of a checkpoint, and which checkpoints stay for it, in real trainings."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from armada_agent.outbox import finishing
from armada_agent.paths import RunPaths

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
