"""The one way in which tests wait: for an event, however long a slow machine takes, and never for a time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

import pytest

T = TypeVar("T")

WITHIN_S = 180.0
"""How long an event may take unless a test says otherwise: machines are four times slower than ours, and swap."""
_SHORTEST_PAUSE_S, _LONGEST_PAUSE_S = 0.01, 0.25


def eventually(look: Callable[[], T], what: str = "", *, within_s: float = WITHIN_S) -> T:
    """Look again and again, ever less often, for the first true answer.

    Args:
        look: What is asked; an exception of it is the test's failure at once.
        what: What is waited for, for the failure's sentence.
        within_s: When to give up. A limit is there to end a hopeless test, never to measure.

    Returns:
        The first true answer.
    """
    deadline = time.monotonic() + within_s
    pause_s = _SHORTEST_PAUSE_S
    while True:
        if found := look():
            return found
        if time.monotonic() > deadline:
            pytest.fail(f"waited {within_s:g} s in vain for {what or look}; the last answer was {found!r}")
        time.sleep(pause_s)
        pause_s = min(pause_s * 1.3, _LONGEST_PAUSE_S)
