"""How a job's process ended (`attempts/<n>/status.json`), written as soon as its supervisor knows it.

Between the end of a job and that of its attempt (`exit.json`), its last checkpoints are hashed, which may take an hour.
Without this record, a job that ended well would be called lost if its host were rebooted meanwhile. It is not written
for a job that was told to stop, unless its training was done by then: the stop decides what the end is.
"""

import os
import time
from typing import Any, Dict, Optional

from armada_agent.foundation import files
from armada_agent.paths import RunPaths
from armada_agent.records.ending import Ending
from armada_agent.records.place import is_something_else

_NAME = "status.json"
_LATEST = 1 << 37


def path_of(paths: RunPaths, attempt: int) -> str:
    return paths.attempt(attempt, _NAME)


def compose(attempt: int, submission: int, status: int) -> Dict[str, Any]:
    """Return the record of a job that ended just now.

    Args:
        attempt: The number of the attempt.
        submission: The number of its submission.
        status: The job's return code, negative for a signal.
    """
    ended = Ending("").with_status(status)
    return {
        "format": 1,
        "attempt": attempt,
        "submission": submission,
        "exit_code": ended.exit_code,
        "signal": ended.signal,
        "ended_at": time.time(),
    }


def read_status(paths: RunPaths, attempt: int, submission: int) -> Optional[int]:
    """Return the return code of an attempt's job, negative for a signal; None if it is not recorded, or another submission's.

    Raises:
        files.UnseenError: The record cannot be read now.
    """
    found = _read(paths, attempt)
    if found.get("submission") != submission:
        return None
    code, number = found.get("exit_code"), found.get("signal")
    if isinstance(code, int) and not isinstance(code, bool) and 0 <= code < 256:
        return code
    if isinstance(number, int) and not isinstance(number, bool) and 0 < number < 128:
        return -number
    return None


def ended_at(paths: RunPaths, attempt: int) -> Optional[float]:
    """Return when the job ended, unix time; None if it is not recorded, or cannot be read."""
    try:
        moment = _read(paths, attempt).get("ended_at", -1)
    except files.UnseenError:
        return None
    is_time = isinstance(moment, (int, float)) and not isinstance(moment, bool) and 0 <= moment < _LATEST
    return float(moment) if is_time else None


def noted_at(paths: RunPaths, attempt: int) -> Optional[float]:
    """Return when the status was recorded, unix time by the file system's clock; None if that cannot be seen."""
    try:
        return os.lstat(path_of(paths, attempt)).st_mtime
    except OSError:
        return None


def _read(paths: RunPaths, attempt: int) -> Dict[str, Any]:
    if not attempt:
        return {}
    try:
        return files.read_json(path_of(paths, attempt)) or {}
    except files.UnseenError:
        if is_something_else(path_of(paths, attempt)):
            return {}
        raise
    except files.UnreadableError:
        return {}  # a job wrote it, so it may be anything
