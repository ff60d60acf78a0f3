"""Settings of the rule that ends a training whose evaluation no longer improves."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from armada.config.checkpoints import Count
from armada.config.settings import Settings


class StopEarly(Settings):
    """End the training, as succeeded and with a checkpoint, when its evaluation no longer improves."""

    other_names: ClassVar[dict[str, str]] = {
        "early_stopping_patience": "patience",
        "early_stopping_threshold": "min_delta",
        "threshold": "min_delta",
        "metric_for_best_model": "metric",
        "monitor": "metric",
    }

    metric: Literal[
        "eval_loss", "eval_rewards/accuracies", "eval_rewards/margins", "eval_accuracy", "eval_margin", "eval_reward"
    ] = "eval_loss"
    """What is compared: the loss should fall, all others rise."""
    patience: Count = 3
    """Evaluations in a row without an improvement, after which it ends."""
    min_delta: Annotated[float, Field(ge=0)] = 0.0
    """An improvement is more than this."""
