"""Settings of runs are compared with their types; metrics are known by their names."""

from __future__ import annotations

from typing import Any

import pytest

from armada.compare.metrics import chosen_metrics, goal_of, in_order
from armada.compare.settings import differences


def differing(*experiments: dict[str, Any]) -> dict[str, tuple[Any, ...]]:
    return {each.key: each.values for each in differences([{"experiment": experiment} for experiment in experiments])}


def test_only_what_differs_is_listed_with_its_type() -> None:
    one = {"train": {"lr": 1e-4, "seed": 1}, "model": "a", "lora": {"r": 8}}
    two = {"train": {"lr": 2e-4, "seed": 1}, "model": "a", "lora": None}
    assert differing(one, two) == {"lora.r": (8, None), "train.lr": (1e-4, 2e-4)}


@pytest.mark.parametrize(
    ("one", "two", "differs"),
    [
        (1, 1.0, False),
        (1, True, True),
        (1, "1", True),
        (0, False, True),
        (None, [], False),
        (None, "", False),
        (None, 0, True),
        (float("nan"), float("nan"), False),
        ([1, 2], [2, 1], True),
        (10**400, 10**400 + 1, True),
        (1e300, 1e301, True),
    ],
)
def test_values_are_compared_by_value_and_type(one: Any, two: Any, differs: bool) -> None:
    assert bool(differing({"x": one}, {"x": two})) is differs


def test_lists_of_mappings_are_compared_item_by_item() -> None:
    one = {"data": {"train": [{"path": "/a", "weight": 1.0}]}}
    two = {"data": {"train": [{"path": "/a", "weight": 2.0}, {"hub": "x/y"}]}}
    assert differing(one, two) == {"data.train[0].weight": (1.0, 2.0), "data.train[1].hub": (None, "x/y")}


def test_hostile_names_and_values_are_sanitized_where_they_are_shown() -> None:
    (found,) = differences([{"experiment": {"a\x1b[2J": "x\x1b]0;y\x07"}}, {"experiment": {}}])
    assert "\x1b" not in found.key
    assert found.texts == ["x�]0;y�", ""]


def test_settings_that_armada_derived_are_compared_too() -> None:
    found = differences([{"experiment": {"a": 1}, "gpus": 1}, {"experiment": {"a": 1}, "gpus": 2}])
    assert [(each.key, each.values) for each in found] == [("(gpus)", (1, 2))]
    assert len(differences([{"experiment": {"a": 1}}, {"experiment": {"a": 1}}], everything=True)) == 1


@pytest.mark.parametrize(
    ("name", "goal"),
    [
        ("loss", "min"),
        ("eval_loss", "min"),
        ("eval/perplexity", "min"),
        ("val_wer", "min"),
        ("accuracy", "max"),
        ("eval_f1", "max"),
        ("test/exact_match", "max"),
        ("mean_token_accuracy", "max"),
        ("learning_rate", None),
        ("eval_runtime", None),
        ("tokens_per_s", None),
        ("epoch", None),
        ("acceleration", None),
        ("eval_rewards/rejected", None),
        ("reward_std", None),
        ("frac_reward_zero_std", None),
        ("error_free_rate", None),
        ("rewards/chosen", "max"),
    ],
)
def test_the_name_of_a_metric_says_which_value_is_best(name: str, goal: str | None) -> None:
    assert goal_of(name) == goal


def test_the_losses_are_shown_first() -> None:
    names = ["accuracy", "eval_loss", "epoch", "loss", "grad_norm"]
    assert chosen_metrics(names) == ["loss", "eval_loss", "accuracy"]
    assert in_order(names) == ["loss", "eval_loss", "grad_norm", "accuracy", "epoch"]
