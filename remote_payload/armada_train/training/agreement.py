"""Decisions on which all ranks must agree, at the end of each step."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed

_left: list[Any] = []


def leave_groups() -> None:
    """End the process groups of this process, as the last thing that it does together with others.

    The default group is kept until the interpreter ends. Else `DistributedDataParallel` lets go of it last: it waits for the group's
    threads while it holds the interpreter, and one of them may wait for the interpreter to let go of the last barrier's tensor
    (torch 2.13 with gloo): a training that ended well then never ends.
    """
    if torch.distributed.is_initialized():
        _left.append(torch.distributed.group.WORLD)
        torch.distributed.destroy_process_group()


class Agreement:
    """Takes the highest answer of all ranks.

    It travels over gloo, on CPUs: over NCCL every step would wait for the GPU to come to a rest.
    """

    def __init__(self, world_size: int) -> None:
        self._group = torch.distributed.new_group(backend="gloo") if world_size > 1 else None

    def highest(self, *answers: int) -> list[int]:
        """Collect the answers; every rank must come here equally often."""
        if self._group is None:
            return list(answers)
        numbers = torch.tensor(answers, dtype=torch.int64)
        torch.distributed.all_reduce(numbers, torch.distributed.ReduceOp.MAX, group=self._group)
        return [int(number) for number in numbers]
