"""Direct preference optimisation: TRL's DPOTrainer on pairs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from trl import DPOConfig, DPOTrainer

from armada_train.specification.values import Training
from armada_train.training.objectives.row_weighted import RowWeightedTrainer, load_reference

_COUPLED = frozenset({"aot", "aot_unpaired", "sft"})
"""Losses that compare the pairs of a batch with each other, or average over its tokens."""


class DpoTrainer(RowWeightedTrainer, DPOTrainer):  # type: ignore[misc]  # trl is not installed where types are checked
    """The reference is the model as it was: with an adapter the base below it, else a second copy."""

    config: ClassVar[Any] = DPOConfig
    eval_curves: ClassVar[tuple[str, ...]] = (
        "rewards/chosen",
        "rewards/rejected",
        "rewards/accuracies",
        "rewards/margins",
        "logps/chosen",
        "logps/rejected",
    )
    curves: ClassVar[tuple[str, ...]] = (*eval_curves, "logits/chosen", "logits/rejected", "entropy")

    @classmethod
    def own_arguments(cls, training: Training) -> dict[str, Any]:
        settings = training.objective.settings
        return {
            "max_length": training.schedule.max_length,
            "beta": settings["beta"],
            "loss_type": [settings["loss"]],
            "label_smoothing": settings["label_smoothing"],
            "precompute_ref_log_probs": settings["precompute_reference"],
            "precompute_ref_batch_size": training.batch.micro,
        }

    @classmethod
    def companions(cls, training: Training, load: Callable[[str], Any], path: str) -> dict[str, Any]:
        return load_reference(training, load, path)

    def eval_batch_size(self) -> int:
        return 1 if _COUPLED.intersection(self.loss_types) else super().eval_batch_size()

    def compute_ref_log_probs(self, model: Any, inputs: Any) -> Any:
        self._heartbeat.beat("preparing")  # the reference passes over all rows before the first step
        return super().compute_ref_log_probs(model, inputs)


TRAINER = DpoTrainer
