"""Deadlines, and growing pauses between retries."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator

from armada.foundation.backoff import Backoff, jitter_roll

_BUSY = Backoff(0.3, jitter=(0.5, 1.5))


class Deadline:
    """A point in time by which something must have happened."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._end = clock() + seconds
        self.seconds = seconds

    def remaining_s(self, at_most: float) -> float:
        return max(0.1, min(at_most, self._end - self._clock()))

    @property
    def left_s(self) -> float:
        """Seconds left until the deadline; 0 once it has passed."""
        return max(0.0, self._end - self._clock())

    @property
    def passed(self) -> bool:
        return self._clock() >= self._end

    def has_room_for(self, pause_s: float) -> bool:
        return self.remaining_s(pause_s) >= pause_s


def growing_pauses() -> Iterator[float]:
    """Yield the seconds to wait between retries of something that was busy."""
    return (_BUSY.pause_s(failures, jitter_roll()) for failures in itertools.count(1))
