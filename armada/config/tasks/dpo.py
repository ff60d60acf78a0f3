"""`task: dpo`: direct preference optimisation on pairs of completions."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from armada.config.checkpoints import Positive
from armada.config.settings import Settings, problem
from armada.config.tasks.bundled import BundledTraining
from armada.config.training import FSDP_WORDS

DpoLoss = Literal[
    "sigmoid",
    "hinge",
    "ipo",
    "exo_pair",
    "nca_pair",
    "robust",
    "bco_pair",
    "sppo_hard",
    "aot",
    "aot_unpaired",
    "apo_zero",
    "apo_down",
    "discopop",
    "sft",
    "sigmoid_norm",
]


class DpoSettings(Settings):
    other_names: ClassVar[dict[str, str]] = {
        "loss_type": "loss",
        "precompute_ref_log_probs": "precompute_reference",
    }

    beta: Positive = 0.1
    """How closely the model keeps to the reference: higher is closer."""
    loss: DpoLoss = "sigmoid"
    """The loss, by TRL's name."""
    label_smoothing: Annotated[float, Field(ge=0, lt=0.5)] = 0.0
    """The share of pairs that are assumed to be the wrong way round; for robust, exo_pair and aot."""
    precompute_reference: bool = False
    """Compute the reference's log-probabilities once before the first step, so that no second model stays in memory."""

    @model_validator(mode="after")
    def _exo_needs_smoothing(self) -> Self:
        if self.loss == "exo_pair" and not self.label_smoothing:
            raise problem(
                "must be above 0 with the loss exo_pair", key="label_smoothing", hint="label_smoothing: 0.001"
            )
        return self


class Dpo(BundledTraining):
    """Train a model to prefer one completion of a prompt to another: rows of `prompt`, `chosen` and `rejected`."""

    has_reference: ClassVar[bool] = True
    shards: ClassVar[tuple[str, ...]] = FSDP_WORDS
    sequences: ClassVar[int] = 2
    eval_metrics: ClassVar[tuple[str, ...]] = ("eval_loss", "eval_rewards/accuracies", "eval_rewards/margins")
    whole_logits: ClassVar[bool] = True

    task: Literal["dpo"]
    """What the run does."""
    dpo: DpoSettings = Field(default_factory=DpoSettings)
    """The loss and its reference, which is the model as it was before the training."""

    @property
    def own(self) -> Settings:
        return self.dpo

    @property
    def may_shard(self) -> bool:
        return super().may_shard and not self.dpo.precompute_reference

    @property
    def keeps_reference(self) -> bool:
        return super().keeps_reference and not self.dpo.precompute_reference

    @model_validator(mode="after")
    def _reference_is_the_model(self) -> Self:
        if self.start_from is not None and self.dpo.precompute_reference:
            raise problem("does not go with start_from", key="dpo.precompute_reference", hint="leave it out")
        if self.train.sharding in FSDP_WORDS and self.dpo.precompute_reference:
            said = f"does not go with `train.sharding: {self.train.sharding}`, which divides the reference, too"
            raise problem(said, key="dpo.precompute_reference", hint="leave it out")
        return self
