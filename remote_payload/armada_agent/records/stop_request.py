"""Read stop.json, a request to stop a run."""

from typing import Any, Dict, Optional

from armada_agent.foundation import files
from armada_agent.paths import RunPaths
from armada_agent.records.ending import Ending


def read_stop_request(paths: RunPaths) -> Optional[Dict[str, Any]]:
    """Read stop.json. A damaged file also counts as a request to stop."""
    try:
        return files.read_json(paths.stop)
    except files.UnreadableError:
        return {}


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
