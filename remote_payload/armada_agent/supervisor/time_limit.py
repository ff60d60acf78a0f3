"""Enforce a run's time limit by the supervisor's own clock.

A host without a batch system has nobody else to enforce one, and not every batch system does.
"""

import time
from typing import Any, Callable, Dict, Tuple

MARGIN_S = 30.0
"""What a supervisor needs after its job, to hash, link and write, before a batch system ends it."""


class TimeLimit:
    """Tells when a job has had its time.

    The clock counts from the job's start and is never set; it continues while a scheduler has the job suspended.

    Args:
        spec: The run's plan.
        clock: Seconds, never set back.

    Attributes:
        grace_s: How long the job has to save, once its time is up.
    """

    def __init__(self, spec: Dict[str, Any], clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        limit_s = spec.get("time_limit_s")
        self._after_s, self.grace_s = float("inf"), float(spec["stop_grace_s"])
        if isinstance(limit_s, (int, float)):
            self._after_s, self.grace_s = plan_stop(limit_s, self.grace_s, bool(spec.get("scheduler")))
        self._since = float("inf")

    def start(self, spent_s: float = 0.0) -> None:
        """Start the clock.

        Args:
            spent_s: What the scheduler has counted by now. Beyond half of the limit it is not believed: it was read wrongly.
        """
        self._since = self._clock() - min(max(spent_s, 0.0), self._after_s / 2)

    @property
    def is_reached(self) -> bool:
        return self._clock() - self._since >= self._after_s


def plan_stop(limit_s: float, grace_s: float, has_scheduler: bool) -> Tuple[float, float]:
    """Say after how many seconds a job is told to end, and how long it then has to save.

    Where a batch system ends everything at the limit, the job has to be done before. A limit that leaves no room for that is
    shared: half of it for the job's work.

    Args:
        limit_s: The time limit.
        grace_s: Between SIGTERM and SIGKILL, as the plan has it.
        has_scheduler: Whether a batch system knows the limit, too.
    """
    if not has_scheduler:
        return float(limit_s), grace_s
    after_s = max(limit_s - grace_s - MARGIN_S, limit_s / 2)
    left_s = limit_s - after_s
    return after_s, min(grace_s, max(left_s - MARGIN_S, left_s / 2))
