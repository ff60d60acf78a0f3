"""What objectives share whose loss is a mean over rows: every row weighs the same, in training and evaluation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar

import torch

from armada_train.specification.values import Training
from armada_train.training.trainer import Trainer


class RowWeightedTrainer(Trainer):
    """A batch of pairs holds the chosen sequences first, then the rejected ones."""

    pads_ends: ClassVar[bool] = True
    weighs: ClassVar[str] = "pairs"
    sequences: ClassVar[int] = 2
    """Sequences of tokens in each row."""
    _rows_expected = 0.0

    def count(self, inputs: Any) -> tuple[Any, Any]:
        tokens, sequences = super().count(inputs)
        return tokens, sequences // self.sequences

    def rows_of(self, inputs: Any) -> int:
        return len(inputs["input_ids"]) // self.sequences

    def get_batch_samples(self, *args: Any, **kwargs: Any) -> Any:
        """Take the batches of a step, and note how many rows one would have if all were alike."""
        batches, items = super().get_batch_samples(*args, **kwargs)
        rows, many = sum(map(self.rows_of, batches)), len(batches)
        if self._run.world_size > 1:  # the ranks' last batches may differ
            counts = torch.tensor([rows, many], device=self.accelerator.device)
            rows, many = self.accelerator.reduce(counts, "sum").tolist()
        self._rows_expected = rows / max(many, 1)
        return batches, items

    def compute_loss(self, model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """Compute the loss; a smaller batch counts for less, so that a step is the mean over its rows."""
        rows = self.rows_of(inputs)
        result = super().compute_loss(model, inputs, *args, **kwargs)
        if not self.model.training or rows == self._rows_expected:
            return result
        share = rows / self._rows_expected
        return (result[0] * share, *result[1:]) if isinstance(result, tuple) else result * share

    def evaluate_batch(self, model: Any, inputs: Any) -> tuple[Any, Any, Mapping[str, tuple[Any, Any]]]:
        rows = self.rows_of(inputs)
        told = self._metrics["eval"]
        told.clear()
        with alone(self.accelerator):
            loss = self.compute_loss(model, inputs)
        weights = self.curve_weights(inputs)
        sums = {
            name: (told[name][-1] * weights.get(name, rows), weights.get(name, rows))
            for name in self.eval_curves
            if told[name]
        }
        told.clear()
        return loss * rows, rows, sums

    def curve_weights(self, _inputs: Any) -> Mapping[str, int]:
        """Return over how many rows of a batch a curve is a mean, where that is not all of them."""
        return {}


def load_reference(training: Training, load: Callable[[str], Any], path: str) -> dict[str, Any]:
    """Load the reference from the model's folder: TRL would look for a name, which a model made by the run lacks.

    With an adapter none is needed: the base below it is the reference.
    """
    if training.lora is not None or training.objective.settings.get("precompute_reference"):
        return {}
    return {"ref_model": load(str(training.start_from.path) if training.start_from else path)}


@contextmanager
def alone(accelerator: Any) -> Iterator[None]:
    """Let TRL compute its metrics of this rank's rows alone: the others may have no batch at the moment."""
    names = ("gather", "gather_for_metrics")
    before = {name: vars(accelerator)[name] for name in names if name in vars(accelerator)}  # those that are timed
    for name in names:
        setattr(accelerator, name, lambda value, *_, **__: value)
    try:
        yield
    finally:
        for name in names:
            delattr(accelerator, name)
        vars(accelerator).update(before)
