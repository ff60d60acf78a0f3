"""Decisions on which all ranks must agree, at the end of each step."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import torch
import torch.distributed

_left: list[Any] = []

_LONGEST_WORK = timedelta(days=1)
"""How long the others wait for what one rank does alone: a user's function may take 20 minutes for each set of rows, and
for each answer when it failed. torch's own limit is 30 minutes. If that rank dies, the others notice at once."""


def leave(accelerator: Any) -> None:
    """End this process's part in a training, as its last collective operation.

    The default group is kept until the interpreter exits. Otherwise `DistributedDataParallel` would release it last: it
    waits for the group's threads while it holds the GIL, and one of them may wait for the GIL to release the last
    barrier's tensor (torch 2.13 with gloo). A training that succeeded would then never exit. accelerate's `end_training`
    destroys the group without keeping it, so it comes last.
    """
    accelerator.wait_for_everyone()  # the launcher ends the others as soon as one rank exits
    if torch.distributed.is_initialized():
        _left.append(torch.distributed.group.WORLD)
        torch.distributed.destroy_process_group()
    accelerator.end_training()


class Agreement:
    """Takes the highest answer of all ranks.

    It uses gloo, on CPUs: over NCCL every step would wait for the GPU to finish its queue.
    """

    def __init__(self, world_size: int) -> None:
        self._group = self._patient_group = None
        if world_size > 1:
            self._group = torch.distributed.new_group(backend="gloo")
            self._patient_group = torch.distributed.new_group(backend="gloo", timeout=_LONGEST_WORK)

    def highest(self, *answers: int) -> list[int]:
        """Collect the answers; every rank must call this equally often."""
        if self._group is None:
            return list(answers)
        numbers = torch.tensor(answers, dtype=torch.int64)
        torch.distributed.all_reduce(numbers, torch.distributed.ReduceOp.MAX, group=self._group)
        return [int(number) for number in numbers]

    def gather(self, value: Any) -> list[Any]:
        """Collect a value of each rank; every rank must call this equally often. One may come hours after the others."""
        if self._patient_group is None:
            return [value]
        found: list[Any] = [None] * torch.distributed.get_world_size()
        torch.distributed.all_gather_object(found, value, group=self._patient_group)
        return found
