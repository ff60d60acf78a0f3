"""Detect whether a run's folder is still the one in which its supervisor started, or was deleted or created again."""

import contextlib
import os
import stat
import time
from typing import Callable, Optional, Tuple, TypeVar

from armada_agent.errors import AgentError
from armada_agent.foundation import files, process_identity
from armada_agent.paths import RunPaths

_TICK_S = 1.0
_AGAIN_S = 0.1
_TRIES = 3
_Found = TypeVar("_Found")


class Place:
    """Whether a run's folder is still the one in which its supervisor started.

    Somebody may delete the folder, or only its content (`rm -r` while the job writes). A job, or another supervisor of
    the same run, may then create it again. If the file system was mounted again, the folder has another device number
    but is the same folder.
    """

    def __init__(self, paths: RunPaths, submission: int) -> None:
        self._paths = paths
        self._submission = submission
        self._begun_in: Optional[Tuple[int, int]] = None
        with contextlib.suppress(OSError):
            self._begun_in = _number(paths.folder) if os.path.exists(paths.spec) else None
        self._looked_at = 0.0
        self._is_ours = True
        self._is_anothers: Callable[[], bool] = lambda: False

    def until(self, is_anothers: Callable[[], bool]) -> None:
        """Set a function that returns whether another supervisor writes to the folder now. If it does, the folder is no longer ours."""
        self._is_anothers = is_anothers

    def is_ours(self, at_once: bool = False) -> bool:
        """Return whether the folder is still this supervisor's. Check at most once a second, or immediately if `at_once`.

        As long as it cannot be seen, it is: only a folder that was seen to be gone, or to be another's, is not.
        """
        now = time.monotonic()
        if at_once or now - self._looked_at > _TICK_S:
            self._looked_at = now
            self._is_ours = not self._is_anothers() and (self._begun_in is None or self._look())
        return self._is_ours

    def _look(self) -> bool:
        try:
            if _number(self._paths.folder) == self._begun_in:
                return not is_gone(self._paths)
            if not self._paths.is_there():
                return False
            job = files.read_json(self._paths.submission(self._submission, "job.json"))
            successor = files.read_json(self._paths.submission(self._submission, "successor.json"))
        except (OSError, files.UnseenError):
            return True  # nobody saw that it is gone
        except files.UnreadableError:
            return False
        own = process_identity.identify()
        return job is not None and (successor or job).get("supervisor", own) == own


def is_gone(paths: RunPaths) -> bool:
    """Return whether nothing of a run is left: no folder, or only an empty one that its job or supervisor created again.

    Raises:
        OSError: The folder cannot be seen.
    """
    if not paths.is_there():
        return True
    return not os.path.lexists(paths.spec) and not paths.submissions() and not paths.checkpoints()


def is_seen_gone(paths: RunPaths) -> bool:
    """Return whether a run's folder was seen to be gone. What cannot be seen is not gone."""
    try:
        return not paths.is_there()
    except OSError:
        return False


def require_seen(paths: RunPaths, folder: str) -> None:
    """Raise an error if a folder of a run cannot be read, so that nobody takes it for an empty one. It may be missing.

    Raises:
        OSError: It cannot be read, or the run's folder cannot be seen.
    """
    try:
        with os.scandir(folder) as entries:
            next(entries, None)
    except (FileNotFoundError, NotADirectoryError):
        paths.is_there()


def await_seen(paths: RunPaths, look: Callable[[], _Found], pause: Callable[[float], None] = time.sleep) -> _Found:
    """Look at something of a run, and wait as long as its folder cannot be read.

    Args:
        paths: The run's files.
        look: Reads something below its folder.
        pause: Waits for some seconds.

    Raises:
        OSError, files.UnseenError: The folder can be read, but this cannot: a job may have put anything in its place.
    """
    tries = 0
    while True:
        try:
            return look()
        except (OSError, files.UnseenError):
            tries = tries + 1 if is_readable(paths) else 0
            if tries >= _TRIES:
                raise
        pause(_AGAIN_S if tries else _TICK_S)


def is_readable(paths: RunPaths) -> bool:
    """Return whether a run's folder can be read now, or was seen to be gone."""
    try:
        require_seen(paths, paths.folder)
    except OSError:
        return False
    return True


def is_something_else(path: str) -> bool:
    """Return whether a path was seen to be no file, but a link, a folder or a pipe: armada writes no record that way."""
    try:
        return not stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:
        return False


def require_there(paths: RunPaths) -> None:
    """Raise an error if nothing of a run is left. What somebody deleted of its records does not make its job go away.

    Raises:
        AgentError: `not_found`.
        OSError: As `is_gone`.
    """
    if is_gone(paths):
        raise AgentError("not_found", "no run %s under %s" % (paths.run_id, paths.root))


def _number(folder: str) -> Optional[Tuple[int, int]]:
    try:
        status = os.stat(folder)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return status.st_dev, status.st_ino
