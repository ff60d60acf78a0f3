"""Decide from the evaluations so far whether a training has stopped improving. Without torch."""

from __future__ import annotations

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


@dataclass(frozen=True, slots=True)
class EarlyStop:
    """The rule that ends a training whose evaluation no longer improves.

    Attributes:
        metric: What is compared.
        patience: How many evaluations in a row may bring no improvement.
        min_delta: An improvement is more than this.
    """

    metric: str
    patience: int
    min_delta: float

    def verdict(self, log: Iterable[Mapping[str, Any]]) -> str | None:
        """Return why the training ends here; None if it continues.

        The evaluation before the first step does not count: it has no checkpoint, and a warm-up may begin above it. A
        value that is not a number is no improvement.

        Args:
            log: The Trainer's `log_history`, which each checkpoint contains: so a resume counts as the run would have.
        """
        sign = -1 if self.metric == "eval_loss" else 1
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
        if without < self.patience:
            return None
        change = "fall" if sign < 0 else "rise"
        margin = f" by more than {self.min_delta:g}" if self.min_delta else ""
        count = "1 evaluation" if self.patience == 1 else f"{self.patience} evaluations"
        known = f"; best {sign * best:.4g} at {best_step}" if best_step else ""
        return f"stopped early at step {max(values)}: {self.metric} did not {change}{margin} for {count}{known}"


def parse_early_stop(section: Section | None) -> EarlyStop | None:
    """Read `train.stop_early`.

    Raises:
        PayloadFailure: `bad_spec`.
    """
    if section is None:
        return None
    rule = EarlyStop(
        section.choice("metric", sorted({name for names in METRICS.values() for name in names}), "eval_loss"),
        section.integer("patience", 3, minimum=1),
        section.number("min_delta", 0.0),
    )
    section.close()
    return rule
