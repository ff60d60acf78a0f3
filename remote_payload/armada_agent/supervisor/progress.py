"""Measure a run's progress by its complete checkpoints, and the progress of each attempt."""

from typing import Any, Dict, List, Optional

from armada_agent.foundation import files
from armada_agent.foundation.log import say
from armada_agent.outbox import listing, watch_record
from armada_agent.paths import RunPaths
from armada_agent.records.ending import exit_of
from armada_agent.verdicts.requeue import Attempt

_LIMIT = 1024 * 1024


class Progress:
    """Measures one attempt. Create it before the attempt's job starts.

    Args:
        paths: The run's files.
    """

    def __init__(self, paths: RunPaths) -> None:
        self._paths = paths
        self._before: Optional[int] = None
        self._is_known = True
        try:
            # Checkpoints that home deleted here, or that a killed supervisor did not finish, are not this attempt's
            # progress.
            self._before = _highest([_newest_whole(paths), _newest_recorded(paths), _newest_announced(paths)])
        except OSError as error:
            self._is_known = False
            say("the run's progress cannot be read: %s" % error)

    def measure(self) -> Dict[str, Optional[int]]:
        """Return `step_before` and `step` of the newest whole checkpoint; an empty dict if they are unknown."""
        if not self._is_known:
            return {}
        try:
            return {"step_before": self._before, "step": _highest([self._before, _newest_whole(self._paths)])}
        except OSError as error:
            say("the run's progress cannot be read: %s" % error)
            return {}


def attempt_of(number: int, reason: Optional[str], measured: Dict[str, Any]) -> Attempt:
    """Return the record of an attempt.

    Args:
        number: The number of the attempt.
        reason: Why it ended.
        measured: Its `step_before` and `step`, if they were recorded.
    """
    before, step = (measured.get(name, "") for name in ("step_before", "step"))
    if all(value is None or (isinstance(value, int) and not isinstance(value, bool)) for value in (before, step)):
        return Attempt(number, reason, before, step)
    return Attempt(number, reason, is_known=False)


def ended_attempts(paths: RunPaths, submission: int) -> List[Attempt]:
    """List the ended attempts of one submission. Earlier submissions do not count: the user wants a fresh try."""
    found = []
    for number in paths.attempts():
        exit_ = _read(paths.attempt(number, "exit.json"))
        begun = _read(paths.attempt(number, "run.json")) or exit_
        if exit_of(exit_, submission) and begun.get("submission") == submission:
            reason = exit_.get("reason")
            found.append(attempt_of(number, reason if isinstance(reason, str) else None, exit_))
    return found


def _newest_whole(paths: RunPaths) -> Optional[int]:
    """Return the highest step of any checkpoint that was ever complete here, as far as the host still knows."""
    return _highest([watch_record.last_whole(paths)] + [entry["step"] for entry in listing.list_finished(paths)])


def _newest_announced(paths: RunPaths) -> Optional[int]:
    steps = [_announcement(folder).get("step") for folder in paths.announced()]
    return _highest([step for step in steps if isinstance(step, int)])


def _newest_recorded(paths: RunPaths) -> Optional[int]:
    steps = [_read(paths.attempt(number, "exit.json")).get("step") for number in paths.attempts()]
    return _highest([step for step in steps if isinstance(step, int)])


def _highest(steps: List[Optional[int]]) -> Optional[int]:
    return max((step for step in steps if step is not None), default=None)


def _announcement(folder: str) -> Dict[str, Any]:
    try:
        return listing.read_announcement(folder) or {}
    except files.UnreadableError:
        return {}  # the checkpoint will not be finished


def _read(path: str) -> Dict[str, Any]:
    try:
        return files.read_json(path, limit=_LIMIT) or {}
    except files.UnreadableError:
        return {}  # cut short when its writer was killed: it counts as empty
