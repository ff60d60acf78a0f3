"""Supervised fine-tuning: TRL's SFTTrainer on prepared labels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from trl import SFTConfig, SFTTrainer

from armada_train.model.right_padding import padded_at_their_ends
from armada_train.specification.values import Training
from armada_train.training.trainer import Trainer


class SftTrainer(Trainer, SFTTrainer):  # type: ignore[misc]  # trl is not installed where types are checked
    """The loss is a mean over tokens, in training and evaluation."""

    config: ClassVar[Any] = SFTConfig
    pads_ends: ClassVar[bool] = True

    @classmethod
    def own_arguments(cls, training: Training) -> dict[str, Any]:
        return {
            "max_length": training.schedule.max_length,
            "packing": training.schedule.packing,
            "packing_strategy": training.objective.packing,
            "eval_packing": False,  # the eval loss must not depend on packing
            "assistant_only_loss": False,  # the labels are prepared: they mark tokens that do not count for the loss
            "completion_only_loss": False,
        }

    def evaluate_batch(self, model: Any, inputs: Any) -> tuple[Any, Any, Mapping[str, tuple[Any, Any]]]:
        with padded_at_their_ends(are=True):
            outputs = model(**inputs, use_cache=False, fused_lm_head=True)
        return -outputs.log_probs.double().sum(), outputs.label_mask.sum(), {}


TRAINER = SftTrainer
