"""Settings of the rule that ends a training whose evaluation no longer improves."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field, field_validator

from armada.config.best_metric import EvalMetric, check_name
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

    metric: EvalMetric | None = None
    """What is compared, by default `train.best_metric`: a loss should fall, accuracies, margins and rewards rise."""
    patience: Count = 3
    """Evaluations in a row without an improvement, after which it ends."""
    min_delta: Annotated[float, Field(ge=0)] = 0.0
    """An improvement is more than this."""

    @field_validator("metric")
    @classmethod
    def _is_evaluated(cls, value: str | None) -> str | None:
        if value is not None:
            check_name(value)
        return value
