"""Pauses before retries: each is twice as long as the one before, up to a limit, with a random factor."""

from __future__ import annotations

import math
import random
from typing import NamedTuple

_MOST_DOUBLINGS = 60
"""Enough for any limit in use, and small enough for a float."""


class Backoff(NamedTuple):
    """An exponential back-off.

    Attributes:
        first_s: The pause after the first failure, before jitter.
        longest_s: The longest pause, before jitter.
        jitter: The smallest and the largest random factor. It spreads clients that wait for the same host, so that they
            do not all return at the same moment.
    """

    first_s: float
    longest_s: float = math.inf
    jitter: tuple[float, float] = (1.0, 1.0)

    def pause_s(self, failures: int, roll: float = 1.0) -> float:
        """Return the pause in seconds after a number of failures in a row.

        Args:
            failures: At least 1.
            roll: Between 0 and 1, such as `jitter_roll()`.
        """
        least, most = self.jitter
        pause_s = min(self.longest_s, self.first_s * 2.0 ** min(failures - 1, _MOST_DOUBLINGS))
        return pause_s * (least + (most - least) * roll)


def jitter_roll() -> float:
    """Return a random number between 0 and 1 for `Backoff.pause_s`."""
    return random.random()  # noqa: S311  # jitter, not a secret
