"""Treat a closed terminal and a polite end like Ctrl-C, so that what is half done is cleared away."""

from __future__ import annotations

import contextlib
import signal
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

_ENDING = (signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def like_an_interrupt() -> Iterator[None]:
    """Raise KeyboardInterrupt for SIGTERM and SIGHUP, in the main thread; elsewhere nothing changes."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = [(number, signal.getsignal(number)) for number in _ENDING]
    for number, former in before:
        if former is not signal.SIG_IGN:  # under nohup
            signal.signal(number, _interrupt)
    try:
        yield
    finally:
        for number, former in before:
            signal.signal(number, former)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
