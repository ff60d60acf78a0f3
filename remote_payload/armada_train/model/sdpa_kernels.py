"""Keep SDPA from preparing a kernel for each new length of a batch.

On GPUs of compute capability 9.0 and newer torch prefers cuDNN's attention, which builds a plan for each shape it sees
for the first time: 0.13 s, and 1 s with a mask (H200, torch 2.11). Rows that are padded to the longest of their batch
have a new shape in nearly each step. The other kernels need no plan; at 2048 tokens they take 1.3 times as long without
a mask, 2.3 times with one.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import Any

import torch

from armada_train.specification.values import Training


def use_plans_for_full_rows(training: Training) -> bool:
    """Leave cuDNN's attention to batches whose rows have the full length, of which there are many of one shape.

    The choice follows from a batch's length alone, so that a training that was resumed makes the same one. Under
    `train.compile` the kernels are chosen when the code is compiled, before a length is known: cuDNN's is not used then.

    Args:
        training: Has the device, the full length and the micro batch, which packing puts into one row.

    Returns:
        Whether anything was changed; on CPUs nothing is.
    """
    if training.device != "cuda":
        return False
    if training.schedule.compile:
        torch.backends.cuda.enable_cudnn_sdp(False)
        return True
    from transformers import AttentionInterface
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    full = training.schedule.max_length
    AttentionInterface.register("sdpa", _with_plans_for(sdpa_attention_forward, {full, full * training.batch.micro}))
    return True


def _with_plans_for(attend: Callable[..., Any], lengths: Container[int]) -> Callable[..., Any]:
    """Wrap transformers' attention: cuDNN's kernel is allowed for queries of these lengths alone."""

    def attend_by_length(module: Any, query: torch.Tensor, *rest: Any, **options: Any) -> Any:
        cuda = torch.backends.cuda
        if query.shape[2] in lengths or not cuda.cudnn_sdp_enabled():
            return attend(module, query, *rest, **options)
        cuda.enable_cudnn_sdp(False)
        try:
            return attend(module, query, *rest, **options)
        finally:
            cuda.enable_cudnn_sdp(True)

    return attend_by_length
