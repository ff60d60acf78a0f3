"""Data loader processes that survive while their rank is told to end."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any

import torch.utils.data


class InWorker:
    """A collator that keeps its worker alive: a launcher's SIGTERM, which reaches the whole group, ends the rank at its step.

    Args:
        collate: Makes a batch of rows.
    """

    def __init__(self, collate: Callable[[list[Any]], Any]) -> None:
        self._collate = collate
        self._is_protected = False

    def __call__(self, rows: list[Any]) -> Any:
        if not self._is_protected and torch.utils.data.get_worker_info() is not None:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            self._is_protected = True
        return self._collate(rows)
