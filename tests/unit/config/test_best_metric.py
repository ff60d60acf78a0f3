"""What the best checkpoint is the best by: one word for it, and its direction."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.unit.config.experiments import SFT, load, load_sft, refused

SETS = SFT.replace("eval: [{path: data/eval.jsonl}]", "eval: {math: {path: data/eval.jsonl}}")
EVERY = "train.eval_every_steps=5"


def test_it_is_the_evaluation_loss_unless_said_otherwise(project: Path) -> None:
    train = load_sft(project, SFT, EVERY, "train.stop_early={}").train
    assert (train.best_metric, train.best_by) == (None, "eval_loss")
    assert train.best_section() == {
        "stop_early": {"metric": "eval_loss", "goal": "min", "patience": 3, "min_delta": 0.0}
    }


def test_a_word_is_enough_and_the_early_stop_goes_by_it(project: Path) -> None:
    train = load_sft(project, SETS, EVERY, "train.best_metric=eval_math_loss", "train.stop_early={patience: 1}").train
    assert train.best_metric is not None
    assert (train.best_metric.name, train.best_metric.goal) == ("eval_math_loss", "min")
    assert train.best_section()["stop_early"] == {
        "metric": "eval_math_loss",
        "goal": "min",
        "patience": 1,
        "min_delta": 0.0,
    }


def test_its_goal_holds_for_the_early_stop_too(project: Path) -> None:
    best = "train.best_metric={name: eval_loss, goal: max}"
    train = load_sft(project, SFT, EVERY, best, "train.stop_early={metric: eval_loss}").train
    assert train.best_section()["stop_early"] == {
        "metric": "eval_loss",
        "goal": "max",
        "patience": 3,
        "min_delta": 0.0,
    }


def test_a_preference_training_knows_which_of_its_metrics_rise(project: Path) -> None:
    text = SETS.replace("task: sft", "task: dpo")
    for metric in ("eval_rewards/margins", "eval_math_rewards/accuracies"):
        train = load_dpo(project, text, f"train.best_metric={metric}")
        assert train.best_metric.goal == "max"


def load_dpo(project: Path, text: str, *overrides: str) -> Any:
    return load(project, text, *overrides).train  # type: ignore[attr-defined]  # every bundled task has it


@pytest.mark.parametrize(
    ("override", "said", "hint"),
    [
        ("train.best_metric=loss", "must name a metric of the evaluation, not 'loss'", "did you mean eval_loss?"),
        ("train.best_metric=eval_mth_loss", "never computed by `task: sft`", "did you mean eval_math_loss?"),
        ("train.best_metric=eval_code_loss", "never computed by `task: sft`", "eval_"),
        ("train.stop_early={metric: eval_mth_loss}", "never computed by `task: sft`", "did you mean eval_math_loss?"),
        ("train.best_metric={name: eval_reward, goal: max}", "never computed by `task: sft`", "eval_"),
        ("train.best_metric=eval_rewards/rejected", "does not say whether low or high values are better", "goal: max"),
        ("train.best_metric={name: eval_quality}", "does not say whether low or high values are better", "goal: max"),
        ("train.best_metric={name: eval_loss, goal: low}", "'min' or 'max'", None),
    ],
)
def test_what_cannot_be_the_best_metric_is_refused(project: Path, override: str, said: str, hint: str | None) -> None:
    error = refused(project, SETS, EVERY, override)
    assert said in str(error)
    assert hint is None or hint in str(error.hint)


def test_without_rows_for_evaluation_nothing_is_the_best(project: Path) -> None:
    text = SFT.replace(", eval: [{path: data/eval.jsonl}]", "")
    assert "is eval_loss, and data.eval is empty" in str(refused(project, text, "train.best_metric=eval_loss"))
