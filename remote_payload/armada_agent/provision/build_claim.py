"""Let one process at a time build an environment, also where several machines share the root.

An flock orders the processes of one machine, and children of a killed agent keep it. Some network file systems have no
locks, or lock within one machine only. So a builder also makes a claim: a file that names its machine and process, made
by an exclusive link, whose time of change it renews while it works. Another machine waits while that time changes.
"""

import contextlib
import os
import threading
import time
from typing import Any, Callable, Iterator, Optional, Tuple

from armada_agent.errors import AgentError
from armada_agent.foundation import files, process_identity
from armada_agent.foundation.session import Call
from armada_agent.host import mounts

RENEW_S = 15.0
STALE_S = 150.0
"""Unchanged for so long, a claim of another machine is void: clients of NFS may see a change a minute later."""
_LOOK_S = 2.0


class Claim:
    """The right to build one environment.

    Attributes:
        lock: Descriptor of the flock. Children of the builder keep it open, so that no second build starts on this machine
            while a child outlives the agent.
    """

    def __init__(self, path: str, lock: int) -> None:
        self.lock = lock
        self._path = path
        self._file = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._renew, daemon=True)
        self._thread.start()

    def require(self) -> None:
        """Refuse to go on if another machine took the claim over, because this one was suspended for minutes.

        Raises:
            AgentError: `conflict`.
        """
        try:
            named = os.stat(self._path)
        except FileNotFoundError:
            named = None
        mine = os.fstat(self._file)
        if named is None or (named.st_dev, named.st_ino) != (mine.st_dev, mine.st_ino):
            message = (
                "another machine that shares this root has taken over the build, because this one paused for minutes"
            )
            raise AgentError("conflict", message, "run it again")

    def release(self) -> None:
        self._over.set()
        self._thread.join()
        with contextlib.suppress(AgentError, OSError):
            self.require()
            os.unlink(self._path)
        os.close(self._file)

    def _renew(self) -> None:
        while not self._over.wait(RENEW_S):
            with contextlib.suppress(OSError):
                os.utime(self._file)


@contextlib.contextmanager
def hold(call: Call, key: str) -> Iterator[Claim]:
    """Wait until nobody else builds an environment, and keep others from it during the block."""
    os.makedirs(os.path.join(call.root, "envs"), mode=0o700, exist_ok=True)
    lock = _wait_for_lock(call, key)
    try:
        path = _claim_path(call.root, key)
        take(path, call.progress)
        claim = Claim(path, lock)
        try:
            yield claim
        finally:
            claim.release()
    finally:
        os.close(lock)


def is_held(root: str, key: str) -> bool:
    """Return whether somebody is known to build an environment, or may be on another machine."""
    if files.is_locked(_lock_path(root, key)):
        return True
    path = _claim_path(root, key)
    found = _read(path)
    return found is not None and _may_live(path, found[1])


def take(
    path: str,
    say: Callable[[str], None],
    clock: Callable[[], float] = time.monotonic,
    pause: Callable[[float], None] = time.sleep,
) -> None:
    """Make a claim once there is none, or none that is valid. This machine's flock is held.

    Args:
        path: The claim.
        say: Receives a message if there is a wait.
        clock: Seconds.
        pause: Waits for so many seconds.
    """
    seen: Optional[Tuple[Any, Any]] = None
    since = clock()
    while not files.link_json(path, process_identity.identify()):
        found = _read(path)
        if found is None:
            continue
        if not _may_live(path, found[1]):
            _discard(path, found)
            continue
        if seen is None:
            name = found[1].get("hostname") if isinstance(found[1], dict) else None
            say("another build is running on %.100s, which shares this root" % (name or "another machine"))
        if found != seen:
            seen, since = found, clock()
        elif clock() - since >= STALE_S:
            _discard(path, found)
            continue
        pause(_LOOK_S)


def _read(path: str) -> Optional[Tuple[Any, Any]]:
    """Read a claim: what changes while its builder lives, and who that is; None if there is no claim."""
    try:
        with files.open_regular(path) as stream:
            status = os.fstat(stream.fileno())
            holder = files.read_json(path)
    except files.UnreadableError:
        holder = {}
    except OSError:
        return None
    return (status.st_ino, status.st_mtime_ns, status.st_ctime_ns), holder


def _may_live(path: str, holder: Any) -> bool:
    """Return whether a claim's process may be alive, by its identity."""
    place = process_identity.compare(holder)
    if place == "here":
        return process_identity.judge(holder) == "alive"
    return place != "before" and mounts.is_shared(mounts.find(os.path.dirname(path)))


def _discard(path: str, seen: Tuple[Any, Any]) -> None:
    """Remove a claim that is void, unless it is another one by now."""
    aside = files.temporary_name(path)
    with contextlib.suppress(FileNotFoundError):
        os.rename(path, aside)
        found = _read(aside)
        if found is not None and found[0][0] != seen[0][0]:
            with contextlib.suppress(FileExistsError):
                os.link(aside, path)
        os.unlink(aside)


def _wait_for_lock(call: Call, key: str) -> int:
    path = _lock_path(call.root, key)
    lock = files.lock(path, timeout_s=0)
    if lock is None:
        call.progress("another build is running")
    while lock is None:
        lock = files.lock(path, timeout_s=5.0)
    return lock


def _lock_path(root: str, key: str) -> str:
    return os.path.join(root, "envs", key + ".lock")


def _claim_path(root: str, key: str) -> str:
    return os.path.join(root, "envs", ".%s.claim" % key)
