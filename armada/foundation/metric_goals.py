"""Tell whether low or high values of a metric are better: from its name, or as somebody said."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Goal = Literal["min", "max"]

_LOW = re.compile(r"loss|perplexity|ppl|nll|error|\berr\b|\b(?:mae|mse|rmse|wer|cer|fid)\b")
_HIGH = re.compile(
    r"acc(?:uracy)?\b|\bf1\b|\bauc\b|bleu|rouge|reward|score|precision|recall|exact_match|\b(?:em|map|mrr|ndcg)\b"
)
# Spreads and shares, the reward of the answer that lost, and what counts the right answers under the name of the wrong ones.
_NEITHER = re.compile(r"\b(?:std|stddev|var|variance|frac|rejected)\b|\berror free\b")
_SPEEDS = re.compile(r"(?:per_s|per_second|_time|time_s|runtime)$")


def goal_of(name: str) -> Goal | None:
    """Return whether the lowest or the highest value of a metric is its best; None if its name does not say so."""
    plain = re.sub(r"[^a-z0-9]+", " ", name.lower().replace("exact_match", "exactmatch")).replace(
        "exactmatch", "exact_match"
    )
    if _SPEEDS.search(name.lower()) or _NEITHER.search(plain):
        return None
    if _LOW.search(plain):
        return "min"
    return "max" if _HIGH.search(plain) else None


@dataclass(frozen=True, slots=True)
class BestBy:
    """A metric, and whether its lowest or its highest value is best."""

    name: str = "eval_loss"
    goal: Goal = "min"

    def rank(self, value: float) -> float:
        """Return a number that is lower the better a value is."""
        return value if self.goal == "min" else -value
