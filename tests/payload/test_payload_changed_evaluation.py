"""Evaluations of other rows, or by another function, are not compared with each other."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from armada_train.checkpoints.evaluated import look_at_evaluation
from armada_train.checkpoints.manifest import describe_evaluation, write_manifest
from armada_train.specification.parser import parse_training
from armada_train.specification.section import Section

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


FALLS = """
import os


def quality(completions, step):
    if step == 6 and os.environ["ARMADA_ATTEMPT"] == "1":
        os._exit(9)
    return 100.0 - step
"""


def test_with_another_function_what_goes_by_its_numbers_begins_anew_and_the_loss_does_not(
    make_run: StartedRun, chat_files: tuple[Path, Path]
) -> None:
    """The first function's numbers are far higher: by them, no later evaluation would be the best."""
    train: dict[str, Any] = {"max_steps": 8, "eval_every_steps": 2}
    train["best_metric"] = {"name": "eval_quality", "goal": "max"}
    train["stop_early"] = {"metric": "eval_loss", "patience": 9, "min_delta": 100}  # only the first one improves
    asked = {"function": "measure:quality", "prompts": 1, "sample_tokens": 1}
    run = make_run(make_training(*chat_files, train=train, checkpoint={"every_steps": 2}, evaluation=asked))
    (run.path / "work" / "measure.py").write_text(FALLS)
    assert run.finish().code == 9
    (run.path / "work" / "measure.py").write_text(FALLS.replace("100.0 - step", "8.0 - step"))
    run.attempt = 2
    said = run.train().output
    (finding,) = [each for each in run.summary["findings"] if "evaluation.function" in each]
    assert f"finding: {finding}" in said
    assert finding.startswith('`evaluation.function` was "measure:quality ')
    assert ": evaluations up to step 4 were measured in another way, so the best one and `stop_early` begin" in finding
    assert run.summary["best_step"] == 6
    assert [line.get("eval_without_improvement") for line in run.lines("eval")] == [None, 0, 1, 2, 3]
    told = json.loads((run.path / "checkpoints" / "checkpoint-8" / "armada.json").read_text())["evaluation"]
    assert (told["since"], told["function_since"]) == (0, 4)


@pytest.fixture
def measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A training with a function, and checkpoint-5 of it, whose last evaluation was that of step 4."""
    (tmp_path / "measures.py").write_text("def quality(completions):\n    return 1.0\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "measures", raising=False)
    rows = write_jsonl(tmp_path / "rows.jsonl", chats(2))
    training = make_training(rows, rows, evaluation={"function": "measures:quality", "prompts": 1})
    log = [{"step": 4, "eval_loss": 1.0, "eval_quality": 9.0}, {"step": 5, "loss": 1.0}]
    (tmp_path / "checkpoint-5").mkdir()
    (tmp_path / "checkpoint-5" / "trainer_state.json").write_text(json.dumps({"log_history": log}))
    return training


def look(training: dict[str, Any], checkpoint: Path) -> tuple[Any, list[str]]:
    return look_at_evaluation(parse_training(Section(training, "training")), checkpoint, 5)


def test_a_function_is_compared_only_with_one_that_the_checkpoint_names(
    measured: dict[str, Any], tmp_path: Path
) -> None:
    checkpoint, log = tmp_path / "checkpoint-5", [{"step": 4, "eval_quality": 9.0}]
    former = {"rows": describe_evaluation(parse_training(Section(measured, "training"))), "since": 0}
    for told in (None, former):  # of the first release, and of one that knew of no functions
        write_manifest(checkpoint, {}, told)
        evaluated, findings = look(measured, checkpoint)
        assert (evaluated.function_since, findings) == (0, [])
        assert evaluated.comparable(log, "eval_quality") == log

    write_manifest(checkpoint, {}, evaluated.describe())
    assert look(measured, checkpoint) == (evaluated, [])
    without, findings = look(measured | {"evaluation": None}, checkpoint)
    assert (without, findings) == (evaluated, [])  # should it come back, it is compared with what it was

    measured["evaluation"]["prompts"] = 2
    changed, (finding,) = look(measured, checkpoint)
    assert finding.startswith(
        "`evaluation.prompts` was 1 and is 2: evaluations up to step 4 were measured in another way"
    )
    assert (changed.since, changed.function_since) == (0, 4)
    assert changed.comparable(log, "eval_quality") == []
    assert changed.comparable(log, "eval_loss") == log
