"""The lock on a run's checkpoints at home: one process at a time fetches, repairs or deletes them."""

from __future__ import annotations

import contextlib
import fcntl
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

FORGOTTEN = "forgotten"
"""Beside the results of a run that a person took out of the store."""


@contextlib.contextmanager
def only_one(folder: Path, wait: Callable[[], None] = lambda: None) -> Iterator[bool]:
    """Two armada processes do not fetch the same run: the second waits, and finds the work done.

    Args:
        folder: Of the run's checkpoints.
        wait: Told that another is at it.

    Yields:
        Whether another was at it, so that what was seen before may be so no longer.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        waits = False
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waits = True
            wait()
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield waits


def leave(folder: Path) -> None:
    """Remove what `only_one` made of a run that is forgotten, where nothing else is there; called within it."""
    with contextlib.suppress(OSError):  # checkpoints or outputs stay
        (folder / ".lock").unlink()
        folder.rmdir()
        folder.parent.rmdir()
    with contextlib.suppress(OSError):  # where nothing stays, there is no folder; elsewhere `store check` reads it
        (folder.parent / FORGOTTEN).touch(mode=0o600)
