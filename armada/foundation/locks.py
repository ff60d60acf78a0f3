"""Locks on files: one process or thread at a time does something. The kernel frees a lock when its holder dies.

| asked for                          | call                             | held by another                           |
|------------------------------------|----------------------------------|-------------------------------------------|
| hold it for a block                | `with locked(path):`             | waits                                     |
| hold it, or know at once           | `lock.try_acquire()`             | returns False                             |
| hold it, or give up                | `lock.acquire(timeout_s=5.0)`    | raises `TimeoutError` after 5 s           |
| read under it, beside other readers| `lock.try_acquire(shared=True)`  | returns False if the other is exclusive   |

The locks are flock's: they belong to the opened file. Threads of one process exclude each other, because each opens the file anew.
A child process that inherits the descriptor (`pass_fds`) holds the lock with its parent, and keeps it after the parent ends.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

POLL_S = 0.02
"""flock cannot wait with a time-out, so `acquire` asks again after so long."""

_RECORD_BYTES = 4096


class FileLock:
    """A file that is locked; open within `with`, closed and so unlocked after it.

    Args:
        path: The lock file.
        create: Make the file, mode 0600, and its folder, mode 0700, where they are missing; otherwise open it to read.
        follow_links: Whether the path may be a symbolic link; False where others could have put one there.
    """

    def __init__(self, path: Path, *, create: bool = True, follow_links: bool = True) -> None:
        self.path = path
        self._create = create
        self._flags = (os.O_RDWR | os.O_CREAT if create else os.O_RDONLY) | os.O_CLOEXEC
        if not follow_links:
            self._flags |= os.O_NOFOLLOW
        self.descriptor = -1
        """Of the opened file; closed on exec, unless a child is given it by `pass_fds`."""

    def __enter__(self) -> Self:
        """Open the file; nothing is locked yet.

        Raises:
            OSError: It cannot be opened; `FileNotFoundError` where it is missing and not to be made.
        """
        if self._create:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.descriptor = os.open(self.path, self._flags, 0o600)
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.descriptor)
        self.descriptor = -1

    def try_acquire(self, *, shared: bool = False) -> bool:
        """Lock it without waiting; return whether it is ours now.

        Args:
            shared: Hold it beside others that hold it shared, rather than alone.

        Raises:
            OSError: The file system has no locks.
        """
        try:
            fcntl.flock(self.descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def acquire(self, *, timeout_s: float | None = None, poll_s: float = POLL_S) -> None:
        """Lock it exclusively, and wait for whoever holds it.

        Args:
            timeout_s: Wait at most so long; None is as long as it takes.
            poll_s: With a time-out: ask so often.

        Raises:
            TimeoutError: Another held it all the time.
            OSError: The file system has no locks.
        """
        if timeout_s is None:
            fcntl.flock(self.descriptor, fcntl.LOCK_EX)
            return
        deadline = time.monotonic() + timeout_s
        while not self.try_acquire():
            if time.monotonic() >= deadline:
                raise TimeoutError(f"{self.path} stayed locked for {timeout_s:g} s")
            time.sleep(poll_s)

    def release(self) -> None:
        """Unlock it; the file stays open."""
        fcntl.flock(self.descriptor, fcntl.LOCK_UN)

    def write_holder(self, record: Mapping[str, Any]) -> None:
        """Write who holds it into the file, for those who wait."""
        os.ftruncate(self.descriptor, 0)
        os.pwrite(self.descriptor, json.dumps(record).encode(), 0)

    def read_holder(self) -> dict[str, Any] | None:
        """What the last holder wrote of itself; None where nothing readable is there, as for an instant after locking."""
        try:
            found = json.loads(os.pread(self.descriptor, _RECORD_BYTES, 0))
        except ValueError:
            return None
        return found if isinstance(found, dict) else None


@contextlib.contextmanager
def locked(path: Path) -> Iterator[FileLock]:
    """Hold a lock file for the length of a block, waiting for it as long as it takes.

    Raises:
        OSError: The file cannot be opened, or its file system has no locks.
    """
    with FileLock(path) as lock:
        lock.acquire()
        yield lock


def try_lock_range(descriptor: int, start: int, length: int) -> bool:
    """Lock a range of a file's bytes exclusively, as SQLite locks its own (POSIX record locks), without waiting.

    Closing any descriptor of the file in this process drops the lock.

    Returns:
        Whether the range is ours now.
    """
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, length, start)
    except OSError:
        return False
    return True
