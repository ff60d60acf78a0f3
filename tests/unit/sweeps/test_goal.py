"""Whether low or high values of a sweep's metric are better, where the sweep does not say so."""

from __future__ import annotations

from pathlib import Path

import pytest

from armada.config.sweep import Sweep
from armada.errors import ConfigError
from armada.sweeps.cells import Draft, Words, read_draft
from armada.sweeps.goal import with_goal

RULES = ("prune: {at: [100]}", "stop: {target: 0.9}")


def draft(folder: Path, sweep: str, overrides: tuple[str, ...] = (), head: str = "") -> Draft:
    path = folder / "e.yaml"
    path.write_text(
        f"name: x\ntask: command\ncommand: ['true']\n{head}sweep: {{grid: {{env.X: [1, 2]}}, {sweep}}}\n", "utf-8"
    )
    return with_goal(read_draft(path, Words(overrides=overrides)))


@pytest.mark.parametrize("rule", [*RULES, "parallel: 2"])
@pytest.mark.parametrize(
    ("metric", "goal"),
    [("eval_accuracy", "max"), ("eval_rewards/margins", "max"), ("eval_loss", "min"), ("eval_wer", "min")],
)
def test_a_metric_whose_name_says_it_needs_no_goal(tmp_path: Path, metric: str, goal: str, rule: str) -> None:
    found = draft(tmp_path, f"metric: {metric}, {rule}").sweep
    assert found.goal == found.decided_goal == goal
    # What is recorded says it, so that a later release that knows other names decides nothing else.
    assert found.model_dump(mode="json", exclude_defaults=True)["goal"] == goal


def test_what_is_stated_counts_before_the_name(tmp_path: Path) -> None:
    assert draft(tmp_path, "metric: eval_accuracy, goal: min").sweep.goal == "min"
    assert draft(tmp_path, "metric: eval_accuracy", ("sweep.goal=min",)).sweep.goal == "min"


def test_the_best_metric_of_the_training_counts_before_the_name(tmp_path: Path) -> None:
    head = "train: {best_metric: {name: eval_zeal, goal: max}}\n"
    assert draft(tmp_path, "metric: eval_zeal, prune: {at: [100]}", head=head).sweep.goal == "max"
    assert draft(tmp_path, "metric: eval_other", head=head).sweep.goal is None


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_by_a_metric_that_says_nothing_is_refused_with_the_line(tmp_path: Path, rule: str) -> None:
    with pytest.raises(ConfigError, match="'zeal' does not say whether low or high values are better") as refused:
        draft(tmp_path, f"metric: zeal, {rule}")
    assert (refused.value.line, refused.value.hint) == (4, "--set sweep.goal=max, or min")
    assert draft(tmp_path, f"metric: zeal, goal: max, {rule}").sweep.goal == "max"


def test_a_goal_stays_open_where_nothing_depends_on_it(tmp_path: Path) -> None:
    assert draft(tmp_path, "metric: zeal").sweep.goal is None
    assert draft(tmp_path, "parallel: 2").sweep.goal is None
    assert Sweep(metric="eval_accuracy").decided_goal == "min"  # as a former release recorded it, and goes by it
