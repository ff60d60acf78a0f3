"""Read stop.json, a request to stop a run."""

import time
from typing import Any, Callable, Dict, Optional

from armada_agent.foundation import files
from armada_agent.paths import RunPaths
from armada_agent.records.ending import Ending
from armada_agent.records.place import is_something_else

_PAUSE_S = 1.0


def read_stop_request(paths: RunPaths) -> Optional[Dict[str, Any]]:
    """Read stop.json. A file that was read and is damaged also counts as a request to stop.

    Raises:
        files.UnseenError: It cannot be read now. Whether a stop was requested is then unknown.
    """
    try:
        return files.read_json(paths.stop)
    except files.UnseenError:
        if is_something_else(paths.stop):
            return None
        raise
    except files.UnreadableError:
        return {}


def await_stop_request(paths: RunPaths, pause: Callable[[float], None] = time.sleep) -> Optional[Dict[str, Any]]:
    """Read stop.json, and wait as long as it cannot be read."""
    while True:
        try:
            return read_stop_request(paths)
        except files.UnseenError:
            pause(_PAUSE_S)


class StopReader:
    """Reads stop.json again and again. As long as it cannot be read, what was read last counts.

    Args:
        paths: The run's files.

    Attributes:
        is_known: The last look read the file, or saw that there is none.
    """

    def __init__(self, paths: RunPaths) -> None:
        self._paths = paths
        self._last: Optional[Dict[str, Any]] = None
        self.is_known = False

    def look(self) -> Optional[Dict[str, Any]]:
        """Return the request that was read last; None without one."""
        try:
            self._last = read_stop_request(self._paths)
            self.is_known = True
        except files.UnseenError:
            self.is_known = False
        return self._last


BY_SWEEP = ("pruned", "sweep_stopped")
"""Reasons of a stop by a rule of the run's sweep: this cell does badly, or the sweep is done."""

_UNSTARTED = "cancelled before it started"


def ending_of(stop_request: Dict[str, Any], has_started: bool) -> Ending:
    """Return the end of a run that was stopped: by a person, by its sweep, or because its host's budget is spent."""
    budget = stop_request.get("budget")
    if isinstance(budget, str) and budget:
        return Ending("failed", "budget", budget[:500])
    reason, message = stop_request.get("reason"), stop_request.get("message")
    if reason in BY_SWEEP and isinstance(message, str) and message:
        return Ending("cancelled", reason, message[:500] if has_started else "%s; %s" % (_UNSTARTED, message[:400]))
    return Ending("cancelled", "killed_by_user", None if has_started else _UNSTARTED)


def concerns(stop_request: Dict[str, Any], submission: int) -> bool:
    """Return whether a stop request applies to this submission. One from before the first submission applies to all of them."""
    number = stop_request.get("submission")
    return not isinstance(number, int) or submission <= number


def grace(stop_request: Dict[str, Any], spec: Dict[str, Any]) -> float:
    """Return the seconds between SIGTERM and SIGKILL that a stop request, or else the plan, gives a job."""
    grace_s = stop_request.get("grace_s", spec.get("stop_grace_s", 60.0))
    return float(grace_s) if isinstance(grace_s, (int, float)) else 60.0
