"""Keep data loader processes alive while their rank is being terminated."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any

import torch.utils.data


class InWorker:
    """A collator that makes its worker ignore a launcher's SIGTERM to the whole group, so that the rank can finish its step.

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
