"""An evaluation that a signal cut short is made by the next attempt, and counts as if nothing had been."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from armada_train.failure import INTERRUPTED

from tests.payload.conftest import StartedRun
from tests.payload.payload_run import PayloadRun, chats, make_training, write_jsonl
from tests.payload.test_payload_distill import make_distill
from tests.payload.test_payload_grpo import JUDGES, make_grpo
from tests.payload.test_payload_tasks import make_task

pytestmark = pytest.mark.payload

# Sends a signal to one rank when an evaluation begins: CUT is the step.
CUTS = """
import os, signal
from armada_train.training.evaluating import Evaluating

once = Evaluating.eval_inputs


def eval_inputs(self, *given):
    if self._run.rank == self._run.world_size - 1 and str(self.state.global_step) == os.environ.get("CUT"):
        os.kill(os.getpid(), signal.SIGTERM)
    return once(self, *given)


Evaluating.eval_inputs = eval_inputs


def quality(completions, step):
    return {2: 1.0, 4: 3.0, 6: 2.0, 8: 0.5}.get(step, 0.0)
"""
ASKED = {"function": "measure:quality", "prompts": 1, "sample_tokens": 1}


def prepared(run: PayloadRun) -> PayloadRun:
    (run.path / "work" / "measure.py").write_text(CUTS)
    return run


def cut(run: PayloadRun, attempt: int, step: int, **options: Any) -> str:
    """Start an attempt whose evaluation of a step is cut short; return its output."""
    run.attempt, run.environment = attempt, {"CUT": str(step)}
    ended = run.finish(**options)
    assert ended.code == INTERRUPTED, ended.output
    assert run.failure["message"].endswith(f"checkpoint {step} is complete, and training resumes from it")
    return ended.output


def end(run: PayloadRun, attempt: int, **options: Any) -> str:
    run.attempt, run.environment = attempt, {}
    return run.train(**options).output


def evaluations(run: PayloadRun) -> list[dict[str, Any]]:
    """Return what was evaluated, without times and attempts."""
    return [
        {k: v for k, v in line.items() if k not in ("time", "attempt", "eval_seconds")} for line in run.lines("eval")
    ]


def ends_alike(run: PayloadRun, straight: PayloadRun, name: str, last: int) -> None:
    assert evaluations(run) == evaluations(straight)
    assert run.losses() == straight.losses()
    ours, theirs = (each.path / "checkpoints" / f"checkpoint-{last}" / name for each in (run, straight))
    assert ours.read_bytes() == theirs.read_bytes()
    assert run.summary["best_step"] == straight.summary["best_step"]


@pytest.mark.takes_long("five trainings: one straight through, one cut three times")
def test_an_evaluation_that_was_cut_is_made_before_the_next_step_and_counts(
    make_run: StartedRun, chat_files: tuple[Path, Path]
) -> None:
    """The best is that of step 4, which is cut twice; the last one is cut, too."""
    train = {"max_steps": 8, "eval_every_steps": 2, "best_metric": {"name": "eval_quality", "goal": "max"}}
    train["stop_early"] = {"metric": "eval_quality", "goal": "max", "patience": 3}
    saved = {"every_steps": 3, "keep_last": 1}
    training = make_training(*chat_files, train=train, checkpoint=saved, evaluation=ASKED)
    training["lora"]["dropout"] = 0.1
    straight = prepared(make_run(training, "straight"))
    end(straight, 1)
    run = prepared(make_run(copy.deepcopy(training)))
    cut(run, 1, 4)
    assert [line["step"] for line in run.lines("eval")] == [0, 2]
    cut(run, 2, 4)
    assert [line["step"] for line in run.lines("train")] == [1, 2, 3, 4]
    cut(run, 3, 8)
    assert run.steps_in("checkpoints", "checkpoint-") == [4, 8]
    end(run, 4)
    assert [line.get("eval_without_improvement") for line in run.lines("eval")] == [None, 0, 0, 1, 2]
    assert run.summary["best_step"] == 4
    ends_alike(run, straight, "adapter_model.safetensors", 8)


@pytest.mark.takes_long("three trainings: cut, resumed, started again after its end")
def test_a_training_whose_last_evaluation_was_cut_stops_early_without_another_step(
    make_run: StartedRun, chat_files: tuple[Path, Path]
) -> None:
    train: dict[str, Any] = {"max_steps": 8, "eval_every_steps": 2}
    train["stop_early"] = {"metric": "eval_loss", "patience": 1, "min_delta": 100}
    train["best_metric"] = {"name": "eval_loss", "goal": "max"}
    run = prepared(make_run(make_training(*chat_files, train=train, evaluation=ASKED)))
    cut(run, 1, 4)
    state = json.loads((run.path / "checkpoints" / "checkpoint-4" / "trainer_state.json").read_text())
    assert state["best_global_step"] == 2  # one that was cut has no result, whether a high one would be the best or not
    for attempt in (2, 3):
        for waiting in (run.path / "outbox").glob(".new-*"):
            waiting.rename(run.path / f"hashed-{attempt}{waiting.name}")
        assert "stopped early at step 4" in end(run, attempt)
        assert run.steps_in("outbox", ".new-") == ([4] if attempt == 2 else [])  # announced as the last one, once
        assert [line["step"] for line in run.lines("train")] == [1, 2, 3, 4]
    assert '"kind": "final"' in (run.path / "hashed-3.new-4" / ".announce.json").read_text()


@pytest.mark.parametrize(
    "task", ["dpo", *(pytest.param(task, marks=pytest.mark.long) for task in ("kto", "grpo", "distill"))]
)
def test_other_tasks_make_it_too(task: str, make_run: StartedRun, tmp_path: Path) -> None:
    makers = {"grpo": make_grpo, "distill": make_distill}
    training = makers[task](tmp_path) if task in makers else make_task(task, tmp_path)
    training["evaluation"] = None if task == "grpo" else ASKED
    straight, run = (prepared(make_run(training, name)) for name in ("straight", "run"))
    for each in (straight, run):
        (each.path / "work" / "judges.py").write_text(f"import measure\n{JUDGES}")
    end(straight, 1)
    cut(run, 1, 3)
    end(run, 2)
    ends_alike(run, straight, "adapter_model.safetensors", 6)


@pytest.mark.takes_long("three trainings of two ranks")
def test_shards_make_it_together(make_run: StartedRun, tmp_path: Path) -> None:
    rows, evaluation = write_jsonl(tmp_path / "rows.jsonl", chats(32)), write_jsonl(tmp_path / "eval.jsonl", chats(5))
    training = make_training(
        rows,
        evaluation,
        batch={"global": 8, "micro": 2, "accumulation": 2, "processes": 2},
        train={"max_steps": 4, "sharding": "fsdp", "eval_every_steps": 2},
        evaluation=ASKED,
    )
    straight = prepared(make_run(training | {"lora": None}, "straight"))
    end(straight, 1, launcher=True)
    run = prepared(make_run(training | {"lora": None}))
    cut(run, 1, 2, launcher=True)
    end(run, 2, launcher=True)
    ends_alike(run, straight, "pytorch_model_fsdp_0/__1_0.distcp", 4)
