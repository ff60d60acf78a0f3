"""Locks on files: one process or thread at a time does something. The kernel frees a lock when its holder dies.

| purpose                            | call                             | if another process holds the lock         |
|------------------------------------|----------------------------------|-------------------------------------------|
| hold it for a block                | `with locked(path):`             | waits                                     |
| try to get it                      | `lock.try_acquire()`             | returns False                             |
| wait for a limited time            | `lock.acquire(timeout_s=5.0)`    | raises `TimeoutError` after 5 s           |
| share it with other readers        | `lock.try_acquire(shared=True)`  | returns False if the other is exclusive   |

These are flock locks: they belong to the opened file. Threads of one process exclude each other, because each opens the
file itself. A child process that inherits the descriptor (`pass_fds`) holds the lock together with its parent, and
keeps it after the parent's end.
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
"""Seconds between attempts in `acquire`: flock has no timeout."""

_RECORD_BYTES = 4096


class FileLock:
    """A lock file. `with` opens it, and closes and thereby unlocks it at the end.

    Args:
        path: The lock file.
        create: Create a missing file with mode 0600 and its folder with mode 0700; otherwise open it for reading.
        follow_links: Whether the path may be a symbolic link. Use False if other users could have created one.
    """

    def __init__(self, path: Path, *, create: bool = True, follow_links: bool = True) -> None:
        self.path = path
        self._create = create
        self._flags = (os.O_RDWR | os.O_CREAT if create else os.O_RDONLY) | os.O_CLOEXEC
        if not follow_links:
            self._flags |= os.O_NOFOLLOW
        self.descriptor = -1
        """The descriptor of the opened file. It is closed on exec unless `pass_fds` passes it to a child."""

    def __enter__(self) -> Self:
        """Open the file without locking it.

        Raises:
            OSError: It cannot be opened; `FileNotFoundError` if it is missing and `create` is False.
        """
        if self._create:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.descriptor = os.open(self.path, self._flags, 0o600)
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.descriptor)
        self.descriptor = -1

    def try_acquire(self, *, shared: bool = False) -> bool:
        """Lock the file without waiting. Return whether that succeeded.

        Args:
            shared: Allow other shared locks.

        Raises:
            OSError: The file system has no locks.
        """
        try:
            fcntl.flock(self.descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def acquire(self, *, timeout_s: float | None = None, poll_s: float = POLL_S) -> None:
        """Lock the file exclusively, and wait for another holder.

        Args:
            timeout_s: How many seconds to wait; None waits without limit.
            poll_s: Seconds between attempts, if there is a timeout.

        Raises:
            TimeoutError: Another process held the lock all the time.
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
        """Unlock the file. It stays open."""
        fcntl.flock(self.descriptor, fcntl.LOCK_UN)

    def write_holder(self, record: Mapping[str, Any]) -> None:
        """Write the holder's record into the file, for processes that wait."""
        os.ftruncate(self.descriptor, 0)
        os.pwrite(self.descriptor, json.dumps(record).encode(), 0)

    def read_holder(self) -> dict[str, Any] | None:
        """Return the record of the last holder; None if it is missing or unreadable, as it is for a moment after locking."""
        try:
            found = json.loads(os.pread(self.descriptor, _RECORD_BYTES, 0))
        except ValueError:
            return None
        return found if isinstance(found, dict) else None


@contextlib.contextmanager
def locked(path: Path) -> Iterator[FileLock]:
    """Hold a lock file during a block; wait for it without limit.

    Raises:
        OSError: The file cannot be opened, or its file system has no locks.
    """
    with FileLock(path) as lock:
        lock.acquire()
        yield lock


def try_lock_range(descriptor: int, start: int, length: int) -> bool:
    """Lock a byte range of a file exclusively without waiting, as SQLite locks its files (POSIX record locks).

    If this process closes any descriptor of the file, the lock is lost.

    Returns:
        Whether that succeeded.
    """
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, length, start)
    except OSError:
        return False
    return True
