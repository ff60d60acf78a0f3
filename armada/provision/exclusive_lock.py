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
    """Hold a lock file. If another process holds it, report that once and wait.

    Args:
        path: The file, created if needed; `HomePaths.lock` names them.
        doing: What this process does, to be shown to others that wait.
        say: Called once with the holder's description if there is a wait.
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
        return f"for process {int(told['pid'])} to finish ({sanitize_line(told['doing'], 100)}, for {since})"
    except (ValueError, KeyError, TypeError):
        return "for another armada to finish"  # the holder has not written its description yet
