"""Decide whether low or high values of a sweep's metric are better."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from armada.config.best_metric import direction_of
from armada.foundation.sanitize import sanitize_line

if TYPE_CHECKING:
    from armada.config.sweep import Sweep
    from armada.foundation.metric_goals import Goal
    from armada.sweeps.cells import Draft


def with_goal(draft: Draft) -> Draft:
    """Return an experiment whose sweep has its `goal` written out.

    It is the stated one, else that of `train.best_metric` if this names the same metric, else what the metric's name
    says. It stays open where nothing says it and nothing depends on it.

    Raises:
        ConfigError: Nothing says it, and a search, `prune` or a target depends on it.
    """
    sweep, document = draft.sweep, draft.document
    if sweep.metric is None or sweep.goal is not None:
        return draft
    goal = _of_training(document.data, sweep.metric) or direction_of(sweep.metric)
    if goal is not None:
        return replace(draft, sweep=sweep.model_copy(update={"goal": goal}))
    if rule := _dependent(sweep):
        said = f"{sanitize_line(sweep.metric, 60)!r} does not say whether low or high values are better, and {rule} depends on it"
        hint = "--set sweep.goal=max, or min"
        raise document.value_place(("sweep", "metric")).error(f"`sweep.metric`: {said}", hint)
    return draft


def goal_words(goal: Goal, metric: str) -> str:
    """`the lowest eval_loss`."""
    return f"the {'lowest' if goal == 'min' else 'highest'} {sanitize_line(metric, 60)}"


def _of_training(data: dict[str, Any], metric: str) -> Goal | None:
    train = data.get("train")
    best = train.get("best_metric") if isinstance(train, dict) else None
    if not isinstance(best, dict) or best.get("name") != metric:
        return None
    return {"min": "min", "max": "max"}.get(str(best.get("goal")))  # type: ignore[return-value]  # one of the two


def _dependent(sweep: Sweep) -> str | None:
    rules = {"sweep.search": sweep.search, "sweep.prune": sweep.prune, "sweep.stop.target": sweep.stop.target}
    return next((f"`{name}`" for name, rule in rules.items() if rule is not None), None)
