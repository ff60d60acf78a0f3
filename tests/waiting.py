"""The one way in which tests wait: for an event, however long a slow machine takes, and never for a time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TypeVar

import pytest

T = TypeVar("T")

WITHIN_S = 180.0
"""How long an event may take unless a test says otherwise: machines are four times slower than ours, and swap."""
LONGEST_PAUSE_S = 1.0
"""Between two looks, once one has waited for four seconds: a look at a host costs it and us half a second of CPU."""
_SHORTEST_PAUSE_S = 0.01


def eventually(
    look: Callable[[], T], what: str = "", *, within_s: float = WITHIN_S, longest_pause_s: float = LONGEST_PAUSE_S
) -> T:
    """Look again and again, ever less often, for the first true answer.

    Args:
        look: What is asked; an exception of it is the test's failure at once.
        what: What is waited for, for the failure's sentence.
        within_s: When to give up. A limit is there to end a hopeless test, never to measure.
        longest_pause_s: Between two looks; shorter for what passes soon, longer for what takes minutes.

    Returns:
        The first true answer.
    """
    found: T | None = None

    def words() -> str:
        return f"{what or look}; the last answer was {found!r}"

    for pause_s in pauses(words, within_s=within_s, longest_pause_s=longest_pause_s):
        if found := look():
            return found
        time.sleep(pause_s)
    raise AssertionError  # `pauses` has failed the test


def pauses(
    what: Callable[[], str], *, within_s: float = WITHIN_S, longest_pause_s: float = LONGEST_PAUSE_S
) -> Iterator[float]:
    """The pauses after each look, in seconds, for who has to await them; fails the test instead of ending.

    Args:
        what: What is waited for, and what was seen instead; asked when the test fails.
        within_s: When to give up.
        longest_pause_s: They grow by a third each time, up to this.
    """
    deadline = time.monotonic() + within_s
    pause_s = _SHORTEST_PAUSE_S
    while time.monotonic() <= deadline:
        yield pause_s
        pause_s = min(pause_s * 1.3, longest_pause_s)
    pytest.fail(f"waited {within_s:g} s in vain for {what()}")
