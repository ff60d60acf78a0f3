"""When a job fell silent, and the lock of those who settle what it left: one process at once, and before a next attempt."""

import contextlib
import os
from typing import Callable, Iterator, Optional

from armada_agent.foundation import files
from armada_agent.foundation.log import say
from armada_agent.paths import RunPaths

_LOCK_S = 1.0


def silent_since(paths: RunPaths) -> Optional[float]:
    """Return when the newest attempt was last seen alive, by the job's log and the supervisor's telemetry; None before the first."""
    if not os.path.exists(paths.checkpoint_watch):
        return None
    return max(_changed_at(paths.output), _changed_at(paths.telemetry))


@contextlib.contextmanager
def settling(paths: RunPaths, tick: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Keep other processes from settling what a dead supervisor left, during a block. On a full disk there is no lock.

    Args:
        paths: The run's files.
        tick: Called again and again while another process holds the lock.
    """
    lock = None
    try:
        lock = files.lock(paths.checkpoint_watch_lock, _LOCK_S)
        while lock is None:
            tick()
            lock = files.lock(paths.checkpoint_watch_lock, _LOCK_S)
    except OSError as error:
        say("going on without a lock: %s" % error)
    try:
        yield
    finally:
        if lock is not None:
            os.close(lock)


def _changed_at(path: str) -> float:
    try:
        return os.stat(path).st_mtime
    except OSError:
        return 0.0
