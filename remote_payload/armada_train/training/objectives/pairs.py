"""What objectives over pairs of completions share: every pair weighs the same, in training and evaluation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar

import torch

from armada_train.training.trainer import Trainer


class PairTrainer(Trainer):
    """A batch holds the chosen sequences first, then the rejected ones."""

    weighs: ClassVar[str] = "pairs"
    _pairs_expected = 0.0

    def count(self, inputs: Any) -> tuple[Any, Any]:
        tokens, sequences = super().count(inputs)
        return tokens, sequences // 2

    def get_batch_samples(self, *args: Any, **kwargs: Any) -> Any:
        """Take the batches of a step, and note how many pairs one would have if all were alike."""
        batches, items = super().get_batch_samples(*args, **kwargs)
        pairs = sum(len(batch["input_ids"]) // 2 for batch in batches)
        counts = torch.tensor([pairs, len(batches)], device=self.accelerator.device)
        pairs, many = self.accelerator.reduce(counts, "sum").tolist()
        self._pairs_expected = pairs / max(many, 1)
        return batches, items

    def compute_loss(self, model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """Compute the loss; a smaller batch counts for less, so that a step is the mean over its pairs."""
        pairs = len(inputs["input_ids"]) // 2
        result = super().compute_loss(model, inputs, *args, **kwargs)
        if not self.model.training or pairs == self._pairs_expected:
            return result
        share = pairs / self._pairs_expected
        return (result[0] * share, *result[1:]) if isinstance(result, tuple) else result * share

    def evaluate_batch(self, model: Any, inputs: Any) -> tuple[Any, Any, Mapping[str, Any]]:
        pairs = len(inputs["input_ids"]) // 2
        told = self._metrics["eval"]
        told.clear()
        with _alone(self.accelerator):
            loss = self.compute_loss(model, inputs)
        sums = {name: told[name][-1] * pairs for name in self.eval_curves}
        told.clear()
        return loss * pairs, pairs, sums


@contextmanager
def _alone(accelerator: Any) -> Iterator[None]:
    """Let TRL compute its metrics of this rank's rows alone: the others may have no batch at the moment."""
    names = ("gather", "gather_for_metrics")
    for name in names:
        setattr(accelerator, name, lambda value, *_, **__: value)
    try:
        yield
    finally:
        for name in names:
            delattr(accelerator, name)
