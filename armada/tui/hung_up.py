"""Notice that the terminal is gone. Textual would read its end again and again, with a quarter of a core, for ever."""

from __future__ import annotations

import contextlib
import os
import select
import sys
import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

_PATIENCE_S = 3.0


def watch(loop: asyncio.AbstractEventLoop, leave: Callable[[], None]) -> None:
    """End the dashboard once nobody holds the other side of the terminal; SIGHUP says so only to who was started from it.

    A thread waits for that, without a look of its own: Textual's event loop may hang for ever in a write that nobody
    takes, and then it can neither look nor leave. What still runs some seconds after `leave` is ended.

    Args:
        loop: The dashboard's event loop.
        leave: Asks the dashboard to end. Called in the loop.
    """
    threading.Thread(target=_wait, args=(loop, leave), name="terminal-watch", daemon=True).start()


def _wait(loop: asyncio.AbstractEventLoop, leave: Callable[[], None]) -> None:
    try:
        polled = select.poll()
        polled.register(sys.__stdin__.fileno() if sys.__stdin__ is not None else 0, 0)
        found = [events for _, events in polled.poll()]
    except (OSError, ValueError):
        return
    if not any(events & (select.POLLHUP | select.POLLERR) for events in found):
        return  # POLLNVAL: old releases of macOS cannot poll a terminal
    with contextlib.suppress(RuntimeError):  # the loop is closed: the dashboard ends by itself
        loop.call_soon_threadsafe(leave)
    time.sleep(_PATIENCE_S)
    os._exit(1)
