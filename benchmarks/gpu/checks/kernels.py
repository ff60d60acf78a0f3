"""SDPA's kernels for attention: how fast each one is, and how long each new length of a batch takes it the first time.

cuDNN builds a plan for each shape. Where rows are padded to the longest of their batch, nearly each step has a new one.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

from benchmarks.gpu.catalogue import FAILED, OOM, PASSED, SKIPPED
from benchmarks.gpu.check import is_out_of_memory
from benchmarks.gpu.workbench import Workbench

_KERNELS = {"cudnn": "CUDNN_ATTENTION", "flash": "FLASH_ATTENTION", "efficient": "EFFICIENT_ATTENTION"}
_ROWS, _HEADS, _HEAD_SIZE = 2, 28, 128
_LENGTHS = (2048, 8192)
_NEW_LENGTHS = range(1031, 1031 + 8 * 37, 37)
_TIMES = 5


def run(bench: Workbench) -> None:
    bench.need_gpu("choosing among its kernels")
    for is_masked in (False, True):
        for place, (name, kernel) in enumerate({"default": None, **_KERNELS}.items()):
            # A plan that one case had prepared would serve the next: each has lengths of its own.
            lengths = [length + place for length in _NEW_LENGTHS]
            _tell(bench, f"{name}{' with a mask' if is_masked else ''}", kernel, is_masked, lengths)


def _tell(bench: Workbench, label: str, kernel: str | None, is_masked: bool, new_lengths: Sequence[int]) -> None:
    try:
        figures: dict[str, Any] = dict(_measure(kernel, is_masked, new_lengths))
    except Exception as error:  # one kernel that refuses hides no other
        message = str(error).strip().partition("\n")[0][:300]
        refuses = "No available kernel" in message
        bench.tell(label, SKIPPED if refuses else OOM if is_out_of_memory(error) else FAILED, message)
        return
    bench.tell(label, PASSED, **figures)


def _measure(kernel: str | None, is_masked: bool, new_lengths: Sequence[int]) -> Iterator[tuple[str, float]]:
    """Give the milliseconds of a step forward and backward, by length, and of the first one of a new length."""
    for length in _LENGTHS:
        seconds = [_step(kernel, is_masked, length) for _ in range(1 + _TIMES)]
        yield f"ms_{length}", 1e3 * min(seconds[1:])
    first = sorted(_step(kernel, is_masked, length) for length in new_lengths)
    yield "ms_new_length", 1e3 * first[len(first) // 2]


def _step(kernel: str | None, is_masked: bool, length: int) -> float:
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    # As transformers has it: the heads are a view of rows of tokens.
    shape = (_ROWS, length, _HEADS, _HEAD_SIZE)
    states = [
        torch.randn(shape, device="cuda", dtype=torch.bfloat16, requires_grad=True).transpose(1, 2) for _ in range(3)
    ]
    mask = _padded(torch, length) if is_masked else None
    torch.cuda.synchronize()
    began = time.perf_counter()
    if kernel is None:
        _there_and_back(torch, states, mask)
    else:
        with sdpa_kernel([getattr(SDPBackend, kernel)]):
            _there_and_back(torch, states, mask)
    torch.cuda.synchronize()
    return time.perf_counter() - began


def _there_and_back(torch: Any, states: list[Any], mask: Any) -> None:
    result = torch.nn.functional.scaled_dot_product_attention(*states, attn_mask=mask, is_causal=mask is None)
    result.sum().backward()


def _padded(torch: Any, length: int) -> Any:
    """Return the mask of rows of which the last is padded by a tenth, as transformers makes it."""
    seen = torch.ones((_ROWS, 1, length, length), dtype=torch.bool, device="cuda").tril()
    seen[-1, :, :, length - length // 10 :] = False
    return seen
