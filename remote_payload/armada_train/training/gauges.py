"""Measure each step: time spent waiting for data, memory, and the share of the GPU's peak performance."""

from __future__ import annotations

import resource
import sys
from typing import Any

import torch


def peak_memory_bytes() -> int:
    """Return this rank's peak memory in bytes: the GPU's if there is one, else the process's."""
    if torch.cuda.is_available():
        return int(torch.cuda.max_memory_allocated())
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024


def flops_per_token(model: Any) -> int:
    """Count the floating point operations for training on one token.

    2 for each weight in the forward pass, 2 in the backward pass, and 2 more for its gradient if it is trained. Input
    embeddings are looked up, not multiplied. Attention between tokens and recomputed activations are left out, as in
    what is usually called MFU without attention: 5 % less for a 7B model at 4096 tokens.
    """
    looked_up = {id(weight) for weight in model.get_input_embeddings().parameters()}
    head = model.get_output_embeddings()
    multiplied_too = {id(weight) for weight in head.parameters()} if head is not None else set()
    skipped = looked_up - multiplied_too
    weights = [weight for weight in model.parameters() if id(weight) not in skipped]
    return sum(count_numbers(weight) * (6 if weight.requires_grad else 4) for weight in weights)


def count_numbers(weight: Any) -> int:
    """Count a weight's numbers.

    bitsandbytes packs two 4-bit numbers into one byte and keeps the shape separately. DeepSpeed's ZeRO-3 leaves nothing of
    a weight that is not in use.
    """
    if (packed := getattr(weight, "quant_state", None)) is not None:
        return int(packed.shape.numel())
    return int(getattr(weight, "ds_numel", None) or weight.numel())
