"""What is known of a metric by its name: its importance, and whether low or high values are better."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from armada.foundation.metric_goals import Goal, goal_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

__all__ = ["TOKENS", "Goal", "chosen_metrics", "goal_of", "in_order"]

TOKENS = "num_tokens"
"""The metric that counts the tokens of a training so far."""

_FIRST = ("loss", "eval_loss", "learning_rate", "grad_norm", "tokens_per_s")
_NUMBER = re.compile(r"0*([0-9]+)")


def in_order(names: Iterable[str]) -> list[str]:
    """Sort metrics by importance for the user, then by name; numbers in names count: `layer_2` is before `layer_10`."""
    return sorted(names, key=_place)


@lru_cache(maxsize=16_384)
def _place(name: str) -> tuple[int, tuple[str | tuple[int, str], ...], str]:
    """Return what a metric is sorted by; kept, as thousands of names are sorted again and again."""
    parts = enumerate(_NUMBER.split(name))  # every second one is a number, which may be too long for an `int`
    told = tuple((len(part), part) if place % 2 else part for place, part in parts)
    return _FIRST.index(name) if name in _FIRST else len(_FIRST), told, name


def main_metric(names: Collection[str]) -> str:
    """Return the metric whose curve says most about a run: the loss, else its first; the loss of a run that has none yet."""
    return in_order(names)[0] if names and "loss" not in names else "loss"


def chosen_metrics(names: Iterable[str], most: int = 3) -> list[str]:
    """Choose the metrics to show if the user names none: the losses, then what has a best value."""
    known = [name for name in in_order(names) if goal_of(name) is not None]
    return sorted(known, key=lambda name: not name.endswith("loss"))[:most]
