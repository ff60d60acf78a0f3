"""Enforce a run's budget by the supervisor's own clock: home may be away, and then nobody else stops it."""

import contextlib
import time
from typing import Any, Callable, Dict, Optional

from armada_agent.foundation import files
from armada_agent.paths import RunPaths
from armada_agent.records.ending import Ending
from armada_agent.records.spent import Spent

BUDGET = "budget"
"""The reason of a run that its budget ended, as in exit.json."""

NOTE_S = 10.0
"""Seconds between two records of the time: a supervisor that is killed loses no more."""


class Budget:
    """Reports when a run has used the time that its budget pays for, over all of its attempts.

    The clock counts while a job runs and is never adjusted. What earlier attempts used stands in spent.json. A run that
    somebody resumes although its budget was spent gets the same once more; an attempt that a batch system starts again
    does not.

    Args:
        paths: The run's files.
        spec: The run's plan.
        submission: The number of the submission that runs.
        clock: Monotonic seconds.
    """

    def __init__(
        self, paths: RunPaths, spec: Dict[str, Any], submission: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        told = spec.get("budget")
        self._paths = paths
        self._spec = spec
        self._submission = submission
        self._clock = clock
        self._said = str(told.get("said") or "") if isinstance(told, dict) else ""
        # The job has its grace period to save; what it runs then is paid, too.
        self._reserve_s = 0.0
        self._before_s = 0.0
        self._allowed_s = float("inf")
        self._since: Optional[float] = None
        self._noted_at = float("-inf")

    def start(self) -> None:
        """Start the clock, after what was used before."""
        spent = Spent(self._paths, self._spec)
        if not spent.each_s:
            return
        self._reserve_s = spent.reserve_s
        self._before_s = spent.used_s
        self._allowed_s = spent.granted_s(self._submission)
        self._since = self._clock()

    @property
    def spent_s(self) -> float:
        """Seconds that its jobs ran."""
        return self._before_s + (self._clock() - self._since if self._since is not None else 0.0)

    @property
    def is_reached(self) -> bool:
        return self._since is not None and self.spent_s >= self._allowed_s - self._reserve_s

    def note(self, is_ours: Callable[[], bool], at_once: bool = False) -> None:
        """Record what was used, every few seconds. A disk that refuses it is asked again.

        Args:
            is_ours: Whether the run's files are still this attempt's.
            at_once: Do not wait for that time.
        """
        if self._since is None or (not at_once and self._clock() - self._noted_at < NOTE_S) or not is_ours():
            return
        self._noted_at = self._clock()
        with contextlib.suppress(OSError):  # a full disk: the next note tries again
            record = {"spent_s": self.spent_s, "submission": self._submission, "allowed_s": self._allowed_s}
            files.write_json(self._paths.spent, record)

    def ending(self, run_id: str) -> Ending:
        """Return the end of a run whose budget is spent, with what to do."""
        said = " of %s" % self._said if self._said else ""
        what = "its budget%s is spent: it ran for %s" % (said, _span(self.spent_s))
        return Ending("failed", BUDGET, "%s; `armada resume %s` grants the same once more" % (what, run_id))


def _span(seconds: float) -> str:
    """Format a duration: `45 s`, `12 m`, `3 h 05 m`."""
    if seconds < 60:
        return "%d s" % seconds
    if seconds < 3600:
        return "%d m" % (seconds // 60)
    return "%d h %02d m" % (seconds // 3600, seconds % 3600 // 60)
