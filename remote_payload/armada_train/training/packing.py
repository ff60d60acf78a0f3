"""Refuse packing with a model whose packed samples see each other."""

from __future__ import annotations

from typing import Any

import torch

from armada_train.failure import PayloadFailure
from armada_train.specification.section import bad_spec
from armada_train.specification.values import Training

_LENGTH = 16
_MUCH = 0.3
"""Of what a sample changes when it surely sees another one. Samples that do not see each other change by nothing at all."""
_LEAST = 1e-5


def check_packing(training: Training, trainer: Any) -> list[str]:
    """Compute one sample behind two different ones in a packed row, and compare the results.

    Whether they are equal depends on the model and on its attention: some models ignore the positions that mark where a
    sample begins, and those with a recurrent state carry it on. Where ranks hold parts of the model nothing is computed.

    Returns:
        Findings.

    Raises:
        PayloadFailure: `bad_spec`: the samples of a packed row change each other.
    """
    if not (training.schedule.packing and getattr(trainer, "padding_free", False)):
        return []
    if not training.needs_all_ranks and _samples_meet(trainer):
        raise _refusal(trainer)
    if trainer.model.config._attn_implementation != "sdpa":  # noqa: SLF001  # it has no public name
        return []
    tokens = training.batch.micro * training.schedule.max_length
    finding = (
        f"packing with attention sdpa computes the attention between all {tokens:,} tokens of a micro batch, and masks what "
        "samples must not see: a micro batch of 1 costs the least, and `group_by_length` may be faster"
    )
    return [finding]


def _samples_meet(trainer: Any) -> bool:
    apart, together = (_change(trainer, lengths) for lengths in ([_LENGTH, _LENGTH], [2 * _LENGTH]))
    return apart > _LEAST and apart > _MUCH * together


def _change(trainer: Any, lengths: list[int]) -> float:
    """Return how much the second half of a row changes with the first half, relative to its size."""
    model = trainer.model
    words = int(model.get_input_embeddings().weight.shape[0])
    second = [(7 * place + 1) % words for place in range(_LENGTH)]
    results = []
    was_training = model.training
    model.eval()
    try:
        for factor in (3, 5):
            row = [*((factor * place + 2) % words for place in range(_LENGTH)), *second]
            batch = trainer.data_collator([{"input_ids": row, "labels": row, "seq_lengths": lengths}])
            inputs = trainer._prepare_inputs({name: value for name, value in batch.items() if name != "labels"})  # noqa: SLF001
            with torch.no_grad(), trainer.accelerator.autocast():
                results.append(model(**inputs, use_cache=False).logits[0, _LENGTH:].float())
    finally:
        model.train(was_training)
    difference, size = (results[0] - results[1]).abs().mean(), results[0].abs().mean()
    return float(difference / size.clamp(min=1e-12))


def _refusal(trainer: Any) -> PayloadFailure:
    model = trainer.model.get_base_model() if hasattr(trainer.model, "get_base_model") else trainer.model
    attention = getattr(model.config, "_attn_implementation", None)
    return bad_spec(
        f"`training.train.packing`: the samples of a packed row change each other in {type(model).__name__} with attention "
        f"{attention}; use `train: {{packing: false, group_by_length: true}}`"
    )
