"""End a call of a user's function that takes too long, in the main thread, where it may use signals of its own."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_SIGNAL = getattr(signal, "SIGRTMAX", signal.SIGUSR2) - 3
"""Not SIGALRM: judges of mathematics set alarms themselves."""
_BETWEEN_S = 10.0
_SIGNALS = 3


class TooLongError(BaseException):
    """A call was interrupted; no `except Exception` of a user's function takes it."""


@contextmanager
def time_limit(seconds: float, give_up: Callable[[], None], between_s: float = _BETWEEN_S) -> Iterator[None]:
    """Interrupt what runs inside after some seconds.

    Args:
        seconds: The limit.
        give_up: Called in another thread when the interruption has no effect, as in a library that never returns.
        between_s: Seconds after which it is interrupted once more.

    Raises:
        TooLongError: It took too long.
    """
    ended = threading.Event()

    def interrupt(_signal: int, _frame: FrameType | None) -> None:
        if not ended.is_set():
            raise TooLongError

    def watch() -> None:
        wait_s = seconds
        for _ in range(_SIGNALS):
            if ended.wait(wait_s):
                return
            signal.pthread_kill(main, _SIGNAL)
            wait_s = between_s
        if not ended.wait(wait_s):
            give_up()

    main = threading.get_ident()
    before = signal.signal(_SIGNAL, interrupt)
    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join(between_s)
        signal.signal(_SIGNAL, before)
