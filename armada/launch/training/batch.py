"""Solve the batch arithmetic: global = micro × accumulation × processes, exactly or not at all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from armada.errors import PreflightRefused


@dataclass(frozen=True, slots=True)
class Batch:
    """Samples per optimizer step, and how they are split."""

    global_: int
    micro: int
    accumulation: int
    processes: int


@dataclass(frozen=True, slots=True)
class DividingValues:
    """Alternatives that divide exactly, each changing one value; nearest first."""

    global_batch_sizes: tuple[int, ...]
    micro_batch_sizes: tuple[int, ...]
    processes: tuple[int, ...]


def resolve_batch(global_batch_size: int, micro: int | Literal["auto"], profile_micro: int, processes: int) -> Batch:
    """Split a global batch.

    Args:
        global_batch_size: Samples per optimizer step.
        micro: Samples per process and forward pass; `auto` takes the largest that divides, at most `profile_micro`.
        profile_micro: The largest micro-batch that fits on the host's GPUs.
        processes: The number of processes that train together.

    Raises:
        PreflightRefused: The batch does not divide exactly; the hint names values that would.
        ValueError: A value is below 1.
    """
    if min(global_batch_size, processes, profile_micro, 1 if micro == "auto" else micro) < 1:
        raise ValueError("batch sizes and processes are at least 1")
    per_process, rest = divmod(global_batch_size, processes)
    size = _largest_divisor(per_process, profile_micro) if micro == "auto" else micro
    if rest == 0 and per_process % size == 0:
        return Batch(global_batch_size, size, per_process // size, processes)
    raise _refusal(global_batch_size, micro, processes)


def dividing_values(global_batch_size: int, micro: int, processes: int) -> DividingValues:
    """Return values near the given ones for which the arithmetic holds if the other two are kept."""
    step = micro * processes
    below = global_batch_size // step * step
    per_process, rest = divmod(global_batch_size, processes)
    divisors = () if rest else _divisors(per_process)
    shares, remainder = divmod(global_batch_size, micro)
    counts = () if remainder else _divisors(shares)
    return DividingValues(
        _nearest(
            tuple(size for size in (below, below + step) if size and size != global_batch_size), global_batch_size
        ),
        _nearest(tuple(size for size in divisors if size != micro), micro),
        _nearest(tuple(count for count in counts if count != processes), processes),
    )


def _divisors(number: int) -> tuple[int, ...]:
    small = [d for d in range(1, int(number**0.5) + 1) if number % d == 0]
    return tuple(sorted({*small, *(number // d for d in small)}))


def _largest_divisor(number: int, limit: int) -> int:
    return next((size for size in range(min(limit, number), 0, -1) if number % size == 0), 1)


def _nearest(values: tuple[int, ...], wanted: int) -> tuple[int, ...]:
    return tuple(sorted(values, key=lambda value: (abs(value - wanted), value))[:2])


def _refusal(global_batch_size: int, micro: int | Literal["auto"], processes: int) -> PreflightRefused:
    values = dividing_values(global_batch_size, 1 if micro == "auto" else micro, processes)
    changes = [
        f"{key}: {' or '.join(map(str, sizes))}"
        for key, sizes in (
            ("train.global_batch_size", values.global_batch_sizes),
            ("train.micro_batch_size", values.micro_batch_sizes if micro != "auto" else ()),
            ("processes (GPUs)", values.processes),
        )
        if sizes
    ]
    each = f"processes {processes}" if micro == "auto" else f"micro_batch_size {micro} × processes {processes}"
    return PreflightRefused(
        f"train.global_batch_size {global_batch_size} is not a multiple of {each}, so no gradient accumulation makes it exact",
        hint=f"any one of these works: {'; '.join(changes)}",
    )
