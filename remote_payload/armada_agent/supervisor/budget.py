"""Enforce a run's budget by the supervisor's own clock: home may be away, and then nobody else stops it."""

import contextlib
import time
from typing import Any, Callable, Dict, Optional

from armada_agent.foundation import files
from armada_agent.paths import RunPaths
from armada_agent.records.ending import Ending

BUDGET = "budget"
"""The reason of a run that its budget ended, as in exit.json."""

NOTE_S = 10.0
"""Seconds between two records of the time: a supervisor that is killed loses no more."""


class Budget:
    """Reports when a run has used the time that its budget pays for, over all of its attempts.

    The clock counts while a job runs and is never adjusted. What earlier attempts used stands in spent.json. A run that
    is resumed although its budget was spent gets the same once more: somebody wants it to continue.

    Args:
        paths: The run's files.
        spec: The run's plan.
        clock: Monotonic seconds.
    """

    def __init__(self, paths: RunPaths, spec: Dict[str, Any], clock: Callable[[], float] = time.monotonic) -> None:
        told = spec.get("budget")
        seconds = _time(told.get("seconds") if isinstance(told, dict) else None)
        self._file = paths.spent
        self._clock = clock
        self._each_s = seconds or None
        # The job has its grace period to save; what it runs then is paid, too.
        self._reserve_s = min(float(spec["stop_grace_s"]), self._each_s / 2) if self._each_s is not None else 0.0
        self._said = str(told.get("said") or "") if isinstance(told, dict) else ""
        self._before_s = 0.0
        self._allowed_s = float("inf")
        self._since: Optional[float] = None
        self._noted_at = float("-inf")

    def start(self) -> None:
        """Start the clock, after what was used before."""
        if self._each_s is None:
            return
        try:
            spent = (files.read_json(self._file) or {}).get("spent_s")
        except files.UnreadableError:
            spent = None  # the job wrote into its run's folder
        self._before_s = _time(spent)
        times = int((self._before_s + self._reserve_s) / self._each_s + 1e-6) + 1
        self._allowed_s = times * self._each_s
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
            files.write_json(self._file, {"spent_s": self.spent_s})

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


def _time(value: Any) -> float:
    """Return a time from a file, 0 for anything else: a job may write into its run's folder."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1e9:
        return 0.0
    return float(value)
