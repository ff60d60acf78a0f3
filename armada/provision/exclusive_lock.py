"""Lock a host's provisioning, so that two launches do not send the same environment and files at the same time."""

from __future__ import annotations

import contextlib
import os
import time
from typing import TYPE_CHECKING

from armada.foundation.locks import FileLock
from armada.foundation.sanitize import sanitize_line
from armada.units import span

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@contextlib.contextmanager
def exclusive_lock(path: Path, doing: str, say: Callable[[str], None]) -> Iterator[None]:
    """Hold a lock file while something is done; whoever comes second is told who is at it, and waits.

    Args:
        path: The file, made when it is not there; `HomePaths.lock` names them.
        doing: What the holder does, for who waits.
        say: Told who holds it, once, when there is anything to wait for.
    """
    with FileLock(path) as lock:
        if not lock.try_acquire():
            say(_holder(lock))
            lock.acquire()
        lock.write_holder({"pid": os.getpid(), "doing": doing, "since": time.time()})
        yield


def _holder(lock: FileLock) -> str:
    try:
        told = lock.read_holder() or {}
        since = span(time.time() - float(told["since"]))
        return f"process {int(told['pid'])} to finish ({sanitize_line(told['doing'], 100)}, for {since})"
    except (ValueError, KeyError, TypeError):
        return "another armada to finish"  # it took the lock an instant ago
