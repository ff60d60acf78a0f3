"""The lock on a run's checkpoints at home: one process at a time fetches, repairs or deletes them."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from armada.foundation.locks import FileLock
from armada.paths import LABELS_FILE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

LOCK = ".lock"
MARK = ".mark"
"""A file in the folder of runs, each run's folder and its `checkpoints`: its id tells them from an empty mount point."""
FORGOTTEN = "forgotten"
"""A file beside the results of a run that the user removed from the store."""


@contextlib.contextmanager
def only_one(folder: Path, wait: Callable[[], None] = lambda: None) -> Iterator[bool]:
    """Hold the run's lock, so that two armada processes do not fetch the same run; the second waits and finds the work done.

    Args:
        folder: The folder of the run's checkpoints.
        wait: Called if another process holds the lock. If it raises, nothing is waited for, and nothing is locked.

    Yields:
        Whether there was a wait, so that what was read before may be outdated.
    """
    with FileLock(folder / LOCK) as lock:
        waits = not lock.try_acquire()
        if waits:
            wait()
            lock.acquire()
        yield waits


def leave(folder: Path) -> None:
    """Remove what `only_one` created for a forgotten run, if nothing else is there; call it with the lock held."""
    with contextlib.suppress(OSError):  # checkpoints or outputs stay
        (folder / LOCK).unlink()
        (folder / MARK).unlink(missing_ok=True)
        folder.rmdir()
        (folder.parent / MARK).unlink(missing_ok=True)
        if [path.name for path in folder.parent.iterdir()] == [LABELS_FILE]:
            (folder.parent / LABELS_FILE).unlink()
        folder.parent.rmdir()
    with contextlib.suppress(OSError):  # if nothing stays, the folder is gone; otherwise `store check` reads this file
        (folder.parent / FORGOTTEN).touch(mode=0o600)
