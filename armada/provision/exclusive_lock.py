"""Lock a host's provisioning, so that two launches do not send the same environment and files at the same time."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from typing import TYPE_CHECKING, Any

from armada.foundation.sanitize import sanitize_line
from armada.units import span

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@contextlib.contextmanager
def exclusive_lock(lock: Path, doing: str, say: Callable[[str], None]) -> Iterator[None]:
    """Hold a lock file while something is done; whoever comes second is told who is at it, and waits.

    The kernel frees it when its holder dies, however it dies.

    Args:
        lock: The file, made when it is not there; `HomePaths.lock` names them.
        doing: What the holder does, for who waits.
        say: Told who holds it, once, when there is anything to wait for.
    """
    lock.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(_holder(descriptor))
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps({"pid": os.getpid(), "doing": doing, "since": time.time()}).encode(), 0)
        yield
    finally:
        os.close(descriptor)


def _holder(descriptor: int) -> str:
    try:
        told: Any = json.loads(os.pread(descriptor, 4096, 0))
        since = span(time.time() - float(told["since"]))
        return f"process {int(told['pid'])} to finish ({sanitize_line(told['doing'], 100)}, for {since})"
    except (ValueError, KeyError, TypeError):
        return "another armada to finish"  # it took the lock an instant ago
