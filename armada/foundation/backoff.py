"""How long to wait before something that failed is tried again: each time twice as long, up to a limit, and random."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

_MOST_DOUBLINGS = 60
"""Beyond any limit in use, and still a float."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """An exponential back-off.

    Attributes:
        first_s: The pause after the first failure, before jitter.
        longest_s: No pause grows beyond this, before jitter.
        jitter: The factors between which a roll of the dice chooses. It spreads many that wait for one host, so that they do not
            come back all at the same moment.
    """

    first_s: float
    longest_s: float = math.inf
    jitter: tuple[float, float] = (1.0, 1.0)

    def pause_s(self, failures: int, roll: float = 1.0) -> float:
        """Give the pause after so many failures in a row.

        Args:
            failures: At least 1.
            roll: Between 0 and 1, such as `jitter_roll()`.
        """
        least, most = self.jitter
        pause_s = min(self.longest_s, self.first_s * 2.0 ** min(failures - 1, _MOST_DOUBLINGS))
        return pause_s * (least + (most - least) * roll)


def jitter_roll() -> float:
    """Roll the dice for `Backoff.pause_s`: between 0 and 1."""
    return random.random()  # noqa: S311  # jitter, not a secret
