"""Describe the times of measured steps with the standard library alone."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence


def describe_steps(steps_s: Sequence[float]) -> dict[str, float]:
    """Describe the times of steps: their number, mean, median, 5th and 95th percentile, and the mean's 95 % interval.

    Neighbouring steps share what slows a machine down, so the interval is made from the means of up to ten blocks of
    steps, with Student's t, and not from single steps, as if each were independent.
    """
    ordered = sorted(steps_s)
    mean = math.fsum(steps_s) / len(steps_s)
    return {
        "steps": len(steps_s),
        "step_time_s": mean,
        "step_time_median_s": _quantile(ordered, 0.5),
        "step_time_p05_s": _quantile(ordered, 0.05),
        "step_time_p95_s": _quantile(ordered, 0.95),
        "spread": _half_interval(steps_s, mean) / mean if mean > 0 else 0.0,
    }


_T_95 = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23)
"""Student's t, two-sided 95 %, for 1 to 10 degrees of freedom."""


def t_95(freedom: float) -> float:
    """Return Student's t, two-sided 95 %; what lies between two whole degrees of freedom is rounded to the wider."""
    if freedom < len(_T_95) + 1:
        return _T_95[max(1, int(freedom)) - 1]
    return 1.96 + 2.7 / freedom  # within 1 % from 11 degrees on: 2.20 at 11, 2.04 at 30


def _half_interval(steps_s: Sequence[float], mean: float) -> float:
    blocks = min(10, len(steps_s))
    if blocks < 2:
        return 0.0
    borders = [len(steps_s) * block // blocks for block in range(blocks + 1)]
    means = [math.fsum(steps_s[start:end]) / (end - start) for start, end in itertools.pairwise(borders)]
    deviation = math.sqrt(math.fsum((each - mean) ** 2 for each in means) / (blocks - 1))
    # Two benches differ by both of their errors, so what is stated is the interval of a difference.
    return math.sqrt(2) * t_95(blocks - 1) * deviation / math.sqrt(blocks)


def _quantile(ordered: Sequence[float], share: float) -> float:
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)
