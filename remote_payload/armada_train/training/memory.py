"""Recognise that memory ran out, and suggest an equivalent batch that needs less."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

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


def out_of_memory(batch: Batch, error: BaseException, *, trains_on_gpu: bool, smallest: int = 1) -> PayloadFailure:
    """Return the failure. If the micro batch did not fit, it suggests the next smaller one that keeps the global batch.

    Args:
        batch: That of the training.
        error: What was raised.
        trains_on_gpu: Whether the model is on a GPU.
        smallest: The smallest micro batch that the task allows.
    """
    advice = "one sample at a time does not fit: a shorter max_length, activation checkpointing, or a smaller model"
    if batch.micro > 1:
        advice = "no smaller one keeps the task: a shorter max_length, activation checkpointing, or a smaller model"
    smaller = max((size for size in range(smallest, batch.micro) if batch.micro % size == 0), default=None)
    if smaller is not None:
        accumulation = batch.accumulation * batch.micro // smaller
        advice = f"train.micro_batch_size: {smaller} with accumulation {accumulation} keeps the global batch of {batch.overall}"
    return _fail(error, f"at micro batch {batch.micro}; {advice}", trains_on_gpu=trains_on_gpu)


@contextmanager
def named_in_evaluation(step: int, rows: int | None, *, trains_on_gpu: bool) -> Iterator[None]:
    """Say of memory that runs out meanwhile that an evaluation needed it, which has a batch of its own.

    Args:
        step: After which it evaluates.
        rows: How many rows are evaluated at once; None where the model writes answers, one at a time.
        trains_on_gpu: Whether the model is on a GPU.

    Raises:
        PayloadFailure: `oom` or `host_oom`: memory ran out.
    """
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        if rows is None:
            what, advice = "writes answers", "a smaller evaluation.sample_tokens, or a smaller model, needs less"
        elif rows == 1:
            what, advice = "takes one row at a time", "a shorter max_length, or a smaller model, needs less"
        else:
            what = f"takes {rows} rows at once"
            advice = f"train.eval_batch_size: {rows // 2} gives the same result in less"
        where = f"in the evaluation after step {step}, which {what}; {advice}"
        raise _fail(error, where, trains_on_gpu=trains_on_gpu) from error


def _fail(error: BaseException, where_and_advice: str, *, trains_on_gpu: bool) -> PayloadFailure:
    first = str(error).strip().partition("\n")[0] or type(error).__name__
    is_of_gpu = isinstance(error, torch.OutOfMemoryError) or any(word in str(error) for word in _GPU_WORDS)
    if trains_on_gpu and not is_of_gpu:
        advice = "request more (`resources.memory`), or use a host with more"
        return PayloadFailure("host_oom", f"the machine's memory ran out, not a GPU's: {first}; {advice}")
    return PayloadFailure("oom" if is_of_gpu else "host_oom", f"out of memory {where_and_advice}. {first}")
