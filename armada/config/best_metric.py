"""Settings of the metric that tells a training's best checkpoint."""

from __future__ import annotations

import re
from typing import Annotated, Any, ClassVar, Literal

from pydantic import model_validator

from armada.config.documents import shown
from armada.config.settings import FilledText, Settings, problem, shaped
from armada.foundation.metric_goals import Goal, goal_of

EVALUATED = re.compile(r"eval_[A-Za-z0-9_./-]{1,80}")
_RISING = ("margin", "margins", "accuracies")
"""The ends of other metrics of our own that should rise."""

EvalMetric = Annotated[FilledText, shaped(EVALUATED)]


def direction_of(metric: str) -> Goal | None:
    """Return whether a metric of an evaluation should fall or rise; None if its name does not say so."""
    return "max" if metric.endswith(_RISING) else goal_of(metric)


class BestMetric(Settings):
    """Which metric tells the best checkpoint, and whether low or high values are better."""

    other_names: ClassVar[dict[str, str]] = {"metric": "name", "direction": "goal", "mode": "goal"}

    name: EvalMetric
    """`eval_loss`, `eval_math_loss` of the evaluation set `math`, or another metric of the evaluation."""
    goal: Literal["min", "max"] | None = None
    """Whether the lowest or the highest value is best; needed only where the name does not say so."""

    @model_validator(mode="before")
    @classmethod
    def _has_a_goal(cls, value: Any) -> Any:
        name = value.get("name") if isinstance(value, dict) else None
        if not isinstance(name, str) or value.get("goal") is not None:
            return value
        check_name(name, "name")
        goal = direction_of(name)
        if goal is None:
            said = f"{shown(name)} does not say whether low or high values are better"
            raise problem(said, key="name", hint=f"best_metric: {{name: {name}, goal: max}}")
        return {**value, "goal": goal}


def check_name(name: str, key: str | None = None) -> None:
    """Refuse what cannot name a metric of an evaluation.

    Raises:
        PydanticCustomError: With a hint.
    """
    if not EVALUATED.fullmatch(name):
        near = f"eval_{name}" if EVALUATED.fullmatch(f"eval_{name}") else "eval_loss"
        raise problem(f"must name a metric of the evaluation, not {shown(name)}", key=key, hint=f"did you mean {near}?")
