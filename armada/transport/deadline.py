"""Deadlines, and growing pauses between retries."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator

_FIRST_PAUSE_S = 0.3


class Deadline:
    """A point in time by which something must have happened."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._end = clock() + seconds
        self.seconds = seconds

    def remaining_s(self, at_most: float) -> float:
        return max(0.1, min(at_most, self._end - self._clock()))

    @property
    def passed(self) -> bool:
        return self._clock() >= self._end

    def has_room_for(self, pause_s: float) -> bool:
        return self.remaining_s(pause_s) >= pause_s


def growing_pauses() -> Iterator[float]:
    """Yield seconds to wait between tries of something that was busy: each time about twice as long, and random."""
    pause_s = _FIRST_PAUSE_S
    while True:
        yield pause_s * random.uniform(0.5, 1.5)  # noqa: S311  # jitter, not a secret
        pause_s *= 2
