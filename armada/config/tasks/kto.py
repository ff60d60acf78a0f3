"""`task: kto`: Kahneman-Tversky optimisation on single answers that were liked or not."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from armada.config.checkpoints import Positive
from armada.config.settings import Settings
from armada.config.tasks.bundled import BundledTraining
from armada.config.training import FSDP_WORDS


class KtoSettings(Settings):
    other_names: ClassVar[dict[str, str]] = {"loss_type": "loss"}

    beta: Positive = 0.1
    """How closely the model keeps to the reference: higher is closer."""
    loss: Literal["kto", "apo_zero_unpaired"] = "kto"
    """The loss, by TRL's name."""
    desirable_weight: Positive = 1.0
    """Weight of good answers; where they are fewer, more than 1."""
    undesirable_weight: Positive = 1.0
    """Weight of bad answers."""


class Kto(BundledTraining):
    """Train a model towards good answers and away from bad ones: rows of `prompt`, `completion` and `label`."""

    has_reference: ClassVar[bool] = True
    shards: ClassVar[tuple[str, ...]] = FSDP_WORDS
    whole_logits: ClassVar[bool] = True

    task: Literal["kto"]
    """What the run does."""
    kto: KtoSettings = Field(default_factory=KtoSettings)
    """The loss; its reference is the model as it was before the training."""

    @property
    def own(self) -> Settings:
        return self.kto
