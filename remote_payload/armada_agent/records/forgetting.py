"""Delete a run's secrets when a submission needs them no more, unless a later one was claimed, which may have brought its own.

A submission writes its secrets, and then its claim, under a lock. Who holds that lock and sees no later claim deletes no
later secrets. Who goes without it may: where the disk has no locks, or after the wait. So a submission looks for its
secrets again once it is claimed.
"""

import contextlib
import os
from typing import Dict

from armada_agent.foundation import files
from armada_agent.paths import RunPaths
from armada_agent.records.place import is_readable

_TRY_S = 0.2
_TRIES = 25


def bring(paths: RunPaths, secrets: Dict[str, str]) -> None:
    """Write the secrets of a submission, unless just these are there. Without any, nothing is changed."""
    with contextlib.suppress(files.UnreadableError):
        if not secrets or files.read_json(paths.secrets) == secrets:
            return
    files.write_json(paths.secrets, secrets)


def forget(paths: RunPaths, submission: int, must: bool = True) -> bool:
    """Delete the secrets of a submission.

    If the disk refuses the lock, it refuses that to whoever submits, too: then the secrets are deleted without it.

    Args:
        paths: The run's files.
        submission: The newest one that needs them no more; 0 before the first.
        must: Nobody comes back to this: the secrets go, also if somebody else keeps the lock for seconds. Such a
            submission is claimed, and waits for a batch system or for its supervisor; or it has yet to write its secrets.
            Otherwise they stay while the run is being submitted.

    Returns:
        Whether this deleted them.

    Raises:
        OSError: The disk refuses that, or nobody can see now whether a later submission was claimed.
    """
    for _ in range(_TRIES if must else 1):
        if _is_followed(paths, submission, must):
            return False
        try:
            lock = files.lock(paths.submit_lock, timeout_s=_TRY_S if must else 0.0)
        except OSError:
            break
        if lock is None:
            continue
        try:
            return _delete(paths, submission, must)
        finally:
            os.close(lock)
    else:
        if not must:
            return False
    return _delete(paths, submission, must)


def _delete(paths: RunPaths, submission: int, must: bool) -> bool:
    if _is_followed(paths, submission, must):
        return False
    files.remove(paths.secrets)
    return True


def _is_followed(paths: RunPaths, submission: int, must: bool) -> bool:
    """Return whether a later submission was claimed.

    If somebody put a link in the place of the submissions, nothing is submitted either, and so nothing follows.

    Raises:
        OSError: That cannot be seen now.
    """
    try:
        return (paths.newest_submission() or 0) > submission
    except OSError:
        if must and is_readable(paths):
            return False
        raise
