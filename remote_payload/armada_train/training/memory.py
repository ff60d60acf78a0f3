"""Recognise that memory ran out, and suggest an equivalent batch that needs less."""

from __future__ import annotations

import torch

from armada_train.failure import PayloadFailure
from armada_train.specification.values import Batch

_GPU_WORDS = (
    "CUDA out of memory",
    "CUDA error: out of memory",
    "CUBLAS_STATUS_ALLOC_FAILED",
    "Cuda failure 'out of memory'",
)
_WORDS = ("can't allocate memory", "not enough memory", *_GPU_WORDS)
"""torch has an exception class only for its GPU allocator; all other cases are RuntimeErrors."""


def is_out_of_memory(error: BaseException) -> bool:
    return isinstance(error, (torch.OutOfMemoryError, MemoryError)) or any(words in str(error) for words in _WORDS)


def out_of_memory(batch: Batch, error: BaseException, *, trains_on_gpu: bool) -> PayloadFailure:
    """Return the failure. If the micro batch did not fit, it suggests the next smaller one that keeps the global batch."""
    first = str(error).strip().partition("\n")[0] or type(error).__name__
    is_of_gpu = isinstance(error, torch.OutOfMemoryError) or any(word in str(error) for word in _GPU_WORDS)
    if trains_on_gpu and not is_of_gpu:
        advice = "request more (`resources.memory`), or use a host with more"
        return PayloadFailure("host_oom", f"the machine's memory ran out, not a GPU's: {first}; {advice}")
    advice = "one sample at a time does not fit: a shorter max_length, activation checkpointing, or a smaller model"
    smaller = max((size for size in range(1, batch.micro) if batch.micro % size == 0), default=None)
    if smaller is not None:
        accumulation = batch.accumulation * batch.micro // smaller
        advice = f"train.micro_batch_size: {smaller} with accumulation {accumulation} keeps the global batch of {batch.overall}"
    reason = "oom" if is_of_gpu else "host_oom"
    return PayloadFailure(reason, f"out of memory at micro batch {batch.micro}; {advice}. {first}")
