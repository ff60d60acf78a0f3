"""Which evaluation was the best, and whether a training has stopped improving. Without torch."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from armada_train.specification.section import Section

METRICS: dict[str, tuple[str, ...]] = {
    "sft": ("eval_loss",),
    "pretrain": ("eval_loss",),
    "dpo": ("eval_loss", "eval_rewards/accuracies", "eval_rewards/margins"),
    "reward": ("eval_loss", "eval_accuracy", "eval_margin"),
    "kto": ("eval_loss",),
    "grpo": ("eval_loss", "eval_reward"),
    "distill": ("eval_loss",),
}
"""What each task's evaluation computes that tells better from worse; all but the loss should rise."""

WITHOUT = "eval_without_improvement"
"""The curve of how many evaluations in a row did not improve what `stop_early` watches."""

METRIC = re.compile(r"eval_[A-Za-z0-9_./-]{1,80}")


@dataclass(frozen=True, slots=True)
class Best:
    """The metric that tells the best checkpoint; `rises` if high values are better."""

    metric: str = "eval_loss"
    rises: bool = False

    def find(self, log: Iterable[Mapping[str, Any]], before: int) -> tuple[float, int] | None:
        """Return the best value of the evaluations after the start and before a step, and its step; None without one.

        Args:
            log: The Trainer's `log_history`.
            before: The step.
        """
        sign = 1 if self.rises else -1
        found: tuple[float, int] | None = None
        for entry in log:
            value, step = entry.get(self.metric), entry["step"]
            if value is None or not 0 < step < before or not math.isfinite(value):
                continue
            if found is None or sign * value > sign * found[0]:
                found = float(value), int(step)
        return found


@dataclass(frozen=True, slots=True)
class _Course:
    """The newest evaluation's step, the best value and its step, and how many since then brought no improvement."""

    step: int
    best: float
    best_step: int
    without: int


@dataclass(frozen=True, slots=True)
class EarlyStop:
    """The rule that ends a training whose evaluation no longer improves.

    Attributes:
        metric: What is compared.
        patience: How many evaluations in a row may bring no improvement.
        min_delta: An improvement is more than this.
        rises: High values are better.
    """

    metric: str
    patience: int
    min_delta: float
    rises: bool = False

    def verdict(self, log: Iterable[Mapping[str, Any]]) -> str | None:
        """Return why the training ends here; None if it continues.

        The evaluation before the first step does not count: it has no checkpoint, and a warm-up may begin above it. A
        value that is not a number is no improvement.

        Args:
            log: The Trainer's `log_history`, which each checkpoint contains: so a resume counts as the run would have.
        """
        found = self._look_at(log)
        if found.without < self.patience:
            return None
        change = "rise" if self.rises else "fall"
        margin = f" by more than {self.min_delta:g}" if self.min_delta else ""
        count = "1 evaluation" if self.patience == 1 else f"{self.patience} evaluations"
        known = f"; best {found.best:.4g} at {found.best_step}" if found.best_step else ""
        return f"stopped early at step {found.step}: {self.metric} did not {change}{margin} for {count}{known}"

    def without_improvement(self, log: Iterable[Mapping[str, Any]]) -> int:
        """Return how many evaluations, up to the newest, have not improved the metric; `patience` of them end the training.

        Args:
            log: As for `verdict`.
        """
        return self._look_at(log).without

    def _look_at(self, log: Iterable[Mapping[str, Any]]) -> _Course:
        sign = 1 if self.rises else -1
        values = {entry["step"]: float(entry[self.metric]) for entry in log if self.metric in entry and entry["step"]}
        best, best_step, to_beat, without = float("-inf"), 0, float("-inf"), 0
        for step, value in sorted(values.items()):
            goodness = sign * value
            if goodness > best:
                best, best_step = goodness, step
            if goodness > to_beat + self.min_delta:
                to_beat, without = goodness, 0
            else:
                without += 1
        return _Course(max(values, default=0), sign * best, best_step, without)


def parse_early_stop(section: Section | None) -> EarlyStop | None:
    """Read `train.stop_early`.

    Raises:
        PayloadFailure: `bad_spec`.
    """
    if section is None:
        return None
    metric = _parse_metric(section, "metric", "eval_loss")
    rule = EarlyStop(
        metric,
        section.integer("patience", 3, minimum=1),
        section.number("min_delta", 0.0),
        _parse_goal(section, metric),
    )
    section.close()
    return rule


def parse_best(section: Section | None) -> Best:
    """Read `train.best_metric`.

    Raises:
        PayloadFailure: `bad_spec`.
    """
    if section is None:
        return Best()
    metric = _parse_metric(section, "name")
    best = Best(metric, _parse_goal(section, metric))
    section.close()
    return best


def known_metrics(task: str, sets: Iterable[str]) -> tuple[str, ...]:
    """Return what the evaluations of a task compute that tells better from worse, of all rows and of each set."""
    metrics = METRICS[task]
    return (*metrics, *(f"eval_{name}_{each.removeprefix('eval_')}" for name in sets if name for each in metrics))


def _parse_metric(section: Section, key: str, *default: str) -> str:
    metric = section.text(key, *default)
    if not METRIC.fullmatch(metric):
        raise section.wrong(key, "the name of a metric of the evaluation, such as eval_loss", metric)
    return metric


def _parse_goal(section: Section, metric: str) -> bool:
    """Return whether high values are better; a spec of an older armada does not say so."""
    return section.choice("goal", ("min", "max"), "min" if metric.endswith("loss") else "max") == "max"
