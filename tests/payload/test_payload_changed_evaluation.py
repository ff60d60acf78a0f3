"""Evaluations of other rows are not compared with each other."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.payload.conftest import StartedRun
from tests.payload.payload_run import chat, chats, make_training, write_jsonl

pytestmark = pytest.mark.payload

DIES = """
import os


def quality(completions, step):
    if step == 4 and os.environ["ARMADA_ATTEMPT"] == "1":
        os._exit(9)
    return 1.0
"""


def test_with_other_evaluation_rows_the_best_and_the_early_stop_begin_anew(
    make_run: StartedRun, chat_files: tuple[Path, Path], tmp_path: Path
) -> None:
    """The rows that replace the first ones have a far higher loss: by it, no later evaluation would be an improvement."""
    rows = write_jsonl(tmp_path / "eval.jsonl", chats(8))
    train = {"max_steps": 8, "eval_every_steps": 2, "stop_early": {"metric": "eval_loss", "patience": 2}}
    asked = {"function": "measure:quality", "prompts": 1, "sample_tokens": 1}
    saved = {"every_steps": 2, "keep_last": 5}
    run = make_run(make_training(chat_files[0], rows, train=train, checkpoint=saved, evaluation=asked))
    (run.path / "work" / "measure.py").write_text(DIES)
    assert run.finish().code == 9
    write_jsonl(rows, [chat(f"Zoo {n}?", "Quartz jumps vex my dwarf, 9Q!") for n in range(8)])
    run.attempt = 2
    said = run.train().output
    (finding,) = [each for each in run.summary["findings"] if "data.eval" in each]
    assert f"finding: {finding}" in said
    assert finding.endswith("evaluations up to step 2 measured other rows, so the best one and `stop_early` begin anew")
    losses = {line["step"]: line["eval_loss"] for line in run.lines("eval")}
    assert losses[2] < min(losses[step] for step in (4, 6, 8))
    assert run.summary["best_step"] > 2
    assert "stopped_early" not in run.summary
    told = json.loads((run.path / "checkpoints" / "checkpoint-8" / "armada.json").read_text())["evaluation"]
    assert told["since"] == 2
