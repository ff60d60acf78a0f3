"""What is known of a metric by its name: its importance, and whether low or high values are better."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable

Goal = Literal["min", "max"]

TOKENS = "num_tokens"
"""The metric that counts the tokens of a training so far."""

_FIRST = ("loss", "eval_loss", "learning_rate", "grad_norm", "tokens_per_s")
_LOW = re.compile(r"loss|perplexity|ppl|nll|error|\berr\b|\b(?:mae|mse|rmse|wer|cer|fid)\b")
_HIGH = re.compile(
    r"acc(?:uracy)?\b|\bf1\b|\bauc\b|bleu|rouge|reward|score|precision|recall|exact_match|\b(?:em|map|mrr|ndcg)\b"
)
_SPEEDS = re.compile(r"(?:per_s|per_second|_time|time_s|runtime)$")


def in_order(names: Iterable[str]) -> list[str]:
    """Sort metrics by importance for the user."""
    return sorted(names, key=lambda name: (_FIRST.index(name) if name in _FIRST else len(_FIRST), name))


def goal_of(name: str) -> Goal | None:
    """Return whether the lowest or the highest value of a metric is its best; None if its name does not say so."""
    plain = re.sub(r"[^a-z0-9]+", " ", name.lower().replace("exact_match", "exactmatch")).replace(
        "exactmatch", "exact_match"
    )
    if _SPEEDS.search(name.lower()):
        return None
    if _LOW.search(plain):
        return "min"
    return "max" if _HIGH.search(plain) else None


def chosen_metrics(names: Iterable[str], most: int = 3) -> list[str]:
    """Choose the metrics to show if the user names none: the losses, then what has a best value."""
    known = [name for name in in_order(names) if goal_of(name) is not None]
    return sorted(known, key=lambda name: not name.endswith("loss"))[:most]
