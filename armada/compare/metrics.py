"""What is known of a metric by its name: its importance, and whether low or high values are better."""

from __future__ import annotations

from typing import TYPE_CHECKING

from armada.foundation.metric_goals import Goal, goal_of

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["TOKENS", "Goal", "chosen_metrics", "goal_of", "in_order"]

TOKENS = "num_tokens"
"""The metric that counts the tokens of a training so far."""

_FIRST = ("loss", "eval_loss", "learning_rate", "grad_norm", "tokens_per_s")


def in_order(names: Iterable[str]) -> list[str]:
    """Sort metrics by importance for the user."""
    return sorted(names, key=lambda name: (_FIRST.index(name) if name in _FIRST else len(_FIRST), name))


def chosen_metrics(names: Iterable[str], most: int = 3) -> list[str]:
    """Choose the metrics to show if the user names none: the losses, then what has a best value."""
    known = [name for name in in_order(names) if goal_of(name) is not None]
    return sorted(known, key=lambda name: not name.endswith("loss"))[:most]
