"""How fast the machine itself is at the moment: a product of matrices that is the same for every cell of a bench."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import torch

_CPU_SIZE = 512
_GPU_SIZE = 2048
"""Three matrices of 16 bits are 25 MB: a cell that barely fits still does."""
_ON_GPU = 20
"""Products between two looks at the clock."""


def product_s(asked_s: float, clock: Callable[[], float] = time.perf_counter) -> float:
    """Return the median seconds of a product of two square matrices on this process's GPU, else on its CPUs.

    Other work on the machine, less power or a hot GPU lengthen it as they lengthen a training's steps.

    Args:
        asked_s: For how long it is repeated; at least one product is timed after one that is not.
        clock: In seconds.

    Returns:
        Seconds; 0 if the GPU has no memory for it.
    """
    on_gpu = torch.cuda.is_available()
    size = _GPU_SIZE if on_gpu else _CPU_SIZE
    number = _ON_GPU if on_gpu else 1
    try:
        with torch.no_grad():
            one = torch.ones(size, size, device="cuda" if on_gpu else "cpu", dtype=torch.float16 if on_gpu else None)
            into = torch.empty_like(one)
            times = _times(lambda: torch.mm(one, one, out=into), number, asked_s, clock)
    except torch.OutOfMemoryError:
        return 0.0
    return statistics.median(times) / number


def _times(multiply: Callable[[], object], number: int, asked_s: float, clock: Callable[[], float]) -> list[float]:
    multiply()
    _wait_for_gpu()
    began = mark = clock()
    times: list[float] = []
    while not times or mark - began < asked_s:
        for _ in range(number):
            multiply()
        _wait_for_gpu()
        now = clock()
        times.append(now - mark)
        mark = now
    return times


def _wait_for_gpu() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
