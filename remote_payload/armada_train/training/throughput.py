"""Measure the speed of training alone, without evaluation and saving."""

from __future__ import annotations

import time
from collections.abc import Callable


class Throughput:
    """A stopwatch over optimizer steps."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._mark = clock()
        self._elapsed_s = 0.0
        self._steps = 0
        self.total_s = 0.0

    def restart(self) -> None:
        """Discard the time since the last step, because it includes other work than training."""
        self._mark = self._clock()

    def step(self) -> None:
        now = self._clock()
        self._elapsed_s += now - self._mark
        self.total_s += now - self._mark
        self._mark = now
        self._steps += 1

    def lap(self, tokens: int, samples: int) -> dict[str, float]:
        """Return the rates since the last lap, over all ranks."""
        elapsed_s, steps = max(self._elapsed_s, 1e-9), max(self._steps, 1)
        self._elapsed_s, self._steps = 0.0, 0
        return {
            "tokens_per_s": tokens / elapsed_s,
            "samples_per_s": samples / elapsed_s,
            "step_time_s": elapsed_s / steps,
        }
