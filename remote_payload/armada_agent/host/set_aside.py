"""Set the folder of runs aside before it is deleted, and put it back unless a second look says that all of it may go.

What is set aside is found by no name: who is about to add something to a run fails, and cannot add it unseen. Nothing is
deleted there. One rename gives it the name of what is deleted, so the name tells how far a wipe came that was killed:

| the folder of runs is in | it was judged | whoever finds it                                             |
|--------------------------|---------------|--------------------------------------------------------------|
| `.aside/<token>`         | no            | puts it back, unless the lock shows that the wipe still runs |
| `.trash-runs`            | yes           | deletes it, at the next wipe                                 |

If the folder of runs is a mount point, it stays, and its content is set aside within it. Locks only keep others from
waiting in vain: where there are none (some NFS mounts), a wipe whose runs were put back under it deletes nothing.
"""

import contextlib
import errno
import os
import time
import uuid
from typing import Iterator, Optional

from armada_agent.errors import AgentError
from armada_agent.foundation import files
from armada_agent.host import roots
from armada_agent.paths import ASIDE, find_aside, list_folder, runs_folder

TRASH = ".trash-"
_OTHER_FILE_SYSTEM = (errno.EBUSY, errno.EXDEV)


@contextlib.contextmanager
def alone(root: str, wait_s: float) -> Iterator[None]:
    """Be the only wipe of a root during a block. Runs that are created or submitted meanwhile are refused.

    Args:
        root: The root.
        wait_s: How long to wait for another wipe, in seconds.

    Raises:
        AgentError: `conflict`: another wipe runs.
    """
    deadline = time.monotonic() + wait_s
    while True:
        files.make_folders(root)
        lock = files.lock(_lock_file(root), timeout_s=max(0.0, deadline - time.monotonic()))
        if lock is None:
            message = "another armada is deleting everything below %s" % root
            raise AgentError("conflict", message, "wait until it has ended")
        if _is_of(lock, _lock_file(root)):
            break
        os.close(lock)  # the wipe that held it has ended, and deleted the file with the rest
    try:
        yield
    finally:
        os.close(lock)


def forget_lock(root: str) -> None:
    """Delete the lock's file, as the last one of the root: what is put there from now on is no longer in the way."""
    files.remove(_lock_file(root))


def refuse_while_wiped(root: str) -> None:
    """Refuse to put something below a root of which everything is being deleted.

    Raises:
        AgentError: `conflict`.
    """
    if files.is_locked(_lock_file(root)):
        message = "everything of armada's below %s is being deleted (armada hosts release --wipe); nothing was started"
        raise AgentError("conflict", message % root, "run the command again when that has ended")


def set_aside(root: str) -> Optional[str]:
    """Set the folder of runs aside.

    Returns:
        Where it, or its content, is now; None without a folder of runs.

    Raises:
        OSError: It cannot be renamed. What was set aside before the error is left to `put_back`.
    """
    runs, token = runs_folder(root), uuid.uuid4().hex
    if not os.path.lexists(runs):
        return None
    aside = os.path.join(root, ASIDE)
    os.makedirs(aside, mode=0o700, exist_ok=True)
    try:
        os.rename(runs, os.path.join(aside, token))
        return os.path.join(aside, token)
    except OSError as error:
        if error.errno not in _OTHER_FILE_SYSTEM:
            raise
    os.rmdir(aside)
    aside = os.path.join(runs, ASIDE, token)
    os.makedirs(aside, mode=0o700)
    # The mark first: without it, a run that is not seen does not count as removed.
    for name in sorted(list_folder(runs), key=lambda name: name != roots.MARK):
        if name != ASIDE:
            with contextlib.suppress(FileNotFoundError):  # of something that was being written
                os.rename(os.path.join(runs, name), os.path.join(aside, name))
    return aside


def accept(root: str, aside: str) -> str:
    """Give what was set aside the name of what is deleted.

    Returns:
        Where it is now.

    Raises:
        AgentError: `conflict`: somebody put it back.
    """
    runs = runs_folder(root)
    is_within = os.path.dirname(os.path.dirname(aside)) == runs
    trash = files.temporary_name(runs + "/runs") if is_within else os.path.join(root, TRASH + "runs")
    try:
        os.rename(aside, trash)
    except FileNotFoundError:
        message = "another armada put the runs back that were about to be deleted; nothing was deleted"
        raise AgentError("conflict", message, "run the same command again")
    _tidy(root)
    files.fsync_folder(os.path.dirname(trash))  # so that a half-deleted folder never looks complete
    return trash


def put_back_all(root: str) -> None:
    """Put back all that was set aside and not judged. It is for the wipe itself, before it begins and when it refuses."""
    for aside in find_aside(root):
        _put_back(root, aside)
    _tidy(root)


def put_back_left(root: str) -> None:
    """Put back what a wipe that was killed had set aside and not judged."""
    if find_aside(root) and not files.is_locked(_lock_file(root)):
        put_back_all(root)


def _put_back(root: str, aside: str) -> None:
    """Put the runs back. One whose name was taken meanwhile stays where it is: nothing is overwritten but the mark."""
    runs = runs_folder(root)
    with contextlib.suppress(OSError):
        os.rename(aside, runs)  # fails if a folder of runs was made anew, and is not empty
    names = sorted(list_folder(aside), key=lambda name: name == roots.MARK)
    for name in names:  # the mark last: until it is there, a run that is not seen does not count as removed
        place = os.path.join(runs, name)
        if name == roots.MARK or not os.path.lexists(place):
            with contextlib.suppress(OSError):
                os.rename(os.path.join(aside, name), place)
    with contextlib.suppress(OSError):
        os.rmdir(aside)


def _tidy(root: str) -> None:
    for place in (root, runs_folder(root)):
        with contextlib.suppress(OSError):  # none is there, or something that could not be put back
            os.rmdir(os.path.join(place, ASIDE))


def _is_of(descriptor: int, path: str) -> bool:
    """Return whether a descriptor is of the file that has a path now."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.lstat(path))
    except FileNotFoundError:
        return False


def _lock_file(root: str) -> str:
    return os.path.join(root, roots.LOCK)
