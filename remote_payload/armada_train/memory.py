"""Running out of memory: how it shows, and a batch that is the same one with less of it."""

from __future__ import annotations

import torch

from armada_train.failure import PayloadFailure
from armada_train.specification import Batch

_WORDS = ("can't allocate memory", "not enough memory", "CUDA out of memory", "CUBLAS_STATUS_ALLOC_FAILED")
"""torch has a class of its own for its GPU allocator alone; all else are RuntimeErrors."""


def is_out_of_memory(error: BaseException) -> bool:
    return isinstance(error, (torch.OutOfMemoryError, MemoryError)) or any(words in str(error) for words in _WORDS)


def out_of_memory(batch: Batch, error: BaseException) -> PayloadFailure:
    """Make the failure, with the next smaller micro batch that keeps the global one."""
    advice = "one sample at a time does not fit: a shorter max_length, activation checkpointing, or a smaller model"
    smaller = max((size for size in range(1, batch.micro) if batch.micro % size == 0), default=None)
    if smaller is not None:
        accumulation = batch.accumulation * batch.micro // smaller
        advice = f"train.micro_batch_size: {smaller} with accumulation {accumulation} keeps the global batch of {batch.overall}"
    first = str(error).strip().partition("\n")[0]
    return PayloadFailure("oom", f"out of memory at micro batch {batch.micro}; {advice}. {first}")
