"""`task: reward`: a reward model from pairs of completions."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from armada.config.checkpoints import Positive
from armada.config.settings import Settings
from armada.config.tasks.bundled import BundledTraining
from armada.config.training import FSDP_WORDS


class RewardSettings(Settings):
    other_names: ClassVar[dict[str, str]] = {"center_rewards_coefficient": "center"}

    center: Positive | None = None
    """Weight of a term that keeps rewards around 0, such as 0.01."""


class Reward(BundledTraining):
    """Train a model that scores texts with one number: rows of `prompt`, `chosen` and `rejected`."""

    generates: ClassVar[bool] = False
    shards: ClassVar[tuple[str, ...]] = FSDP_WORDS
    sequences: ClassVar[int] = 2
    eval_metrics: ClassVar[tuple[str, ...]] = ("eval_loss", "eval_accuracy", "eval_margin")

    task: Literal["reward"]
    """What the run does."""
    reward: RewardSettings = Field(default_factory=RewardSettings)
    """The loss."""

    @property
    def own(self) -> Settings:
        return self.reward
