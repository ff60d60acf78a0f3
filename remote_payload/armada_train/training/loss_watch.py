"""Detect the step whose loss is not a number, without waiting for the GPU."""

from __future__ import annotations

from collections import deque
from typing import Any

import torch

from armada_train.failure import PayloadFailure

_MOST_PENDING = 8
_FAR = 1 << 60


class LossWatch:
    """Counts NaN losses on the device, and reads the count when it has arrived.

    Reading at every step would stall a GPU. So each step's count is copied asynchronously and read once it has arrived,
    at the end of one of the next steps. On CPUs it arrives at once.

    Args:
        device: The device of the losses.
    """

    def __init__(self, device: torch.device) -> None:
        self.count = torch.zeros(1, dtype=torch.int64, device=device)
        self._is_on_gpu = device.type == "cuda"
        self._pending: deque[tuple[int, Any, Any]] = deque()
        self._first = 0

    def take(self, loss: torch.Tensor) -> None:
        """Count the loss of one micro batch."""
        self.count += ~torch.isfinite(loss.detach())

    def end_step(self, step: int) -> None:
        """Record that a step has ended, and read the counts that have arrived."""
        if self._first:
            return
        if not self._is_on_gpu:
            self._first = step if self.count.item() else 0
            return
        copy = torch.empty(1, dtype=torch.int64, pin_memory=True)
        copy.copy_(self.count, non_blocking=True)
        arrived = torch.cuda.Event()
        arrived.record()
        self._pending.append((step, copy, arrived))
        self._read(wait=False)

    def settle(self, step: int) -> None:
        """Wait for the outstanding counts; losses after the last finished step count for this step."""
        self._read(wait=True)
        if not self._first and self.count.item():
            self._first = step

    @property
    def urgency(self) -> int:
        """A number that is higher the earlier the first NaN step is; 0 without one. The highest of all ranks gives the earliest step."""
        return _FAR - self._first if self._first else 0

    def _read(self, *, wait: bool) -> None:
        while self._pending and not self._first:
            step, copy, arrived = self._pending[0]
            if wait or len(self._pending) > _MOST_PENDING:
                arrived.synchronize()
            elif not arrived.query():
                return
            self._pending.popleft()
            self._first = step if copy.item() else 0


def nan_loss(urgency: int) -> PayloadFailure:
    """Return the failure for the earliest NaN step of all ranks."""
    return PayloadFailure(
        "nan_loss", f"the loss is not a number at step {_FAR - urgency}; checkpoints written before it are kept"
    )
