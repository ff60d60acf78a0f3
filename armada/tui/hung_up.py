"""Notice that the terminal is gone. Textual would read its end again and again, with a quarter of a core, for ever."""

from __future__ import annotations

import select
import sys


def is_gone() -> bool:
    """Whether nobody holds the other side of the terminal; SIGHUP says so only to who was started from it."""
    try:
        polled = select.poll()
        polled.register(sys.__stdin__.fileno() if sys.__stdin__ is not None else 0, 0)
        return any(found & (select.POLLHUP | select.POLLERR | select.POLLNVAL) for _, found in polled.poll(0))
    except (OSError, ValueError):
        return False
