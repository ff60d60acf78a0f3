"""Enforce a run's time limit by the supervisor's own clock.

Without a batch system nothing else enforces a limit, and not every batch system enforces one.
"""

import time
from typing import Any, Callable, Dict, Tuple

MARGIN_S = 30.0
"""Seconds that a supervisor needs after its job to hash, link and write, before a batch system kills it."""


class TimeLimit:
    """Reports when a job has used its time.

    The clock counts from the job's start and is never adjusted. It continues while a scheduler has suspended the job.

    Args:
        spec: The run's plan.
        clock: Monotonic seconds.

    Attributes:
        grace_s: Seconds that the job has to save after its time is up.
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
            spent_s: Seconds that the scheduler has already counted. More than half of the limit counts as a wrong
                reading.
        """
        self._since = self._clock() - min(max(spent_s, 0.0), self._after_s / 2)

    @property
    def is_reached(self) -> bool:
        return self._clock() - self._since >= self._after_s


def plan_stop(limit_s: float, grace_s: float, has_scheduler: bool) -> Tuple[float, float]:
    """Return after how many seconds a job gets SIGTERM, and how many seconds it then has to save.

    If a batch system ends everything at the limit, the job must finish before it. If the limit is too short for that,
    half of it remains for the job's work.

    Args:
        limit_s: The time limit.
        grace_s: Seconds between SIGTERM and SIGKILL, by the plan.
        has_scheduler: Whether a batch system enforces the limit, too.
    """
    if not has_scheduler:
        return float(limit_s), grace_s
    after_s = max(limit_s - grace_s - MARGIN_S, limit_s / 2)
    left_s = limit_s - after_s
    return after_s, min(grace_s, max(left_s - MARGIN_S, left_s / 2))
