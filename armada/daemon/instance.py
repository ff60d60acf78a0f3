"""Allow one daemon per home: the daemon is the process that holds the lock. The kernel frees the lock when that process exits.

flock cannot be queried without taking the lock, so a check takes it shared for a moment. A starting daemon that meets a
check therefore retries. It gives up only if the lock is held exclusively, which a check never does. Linux and macOS
behave alike here. `F_GETLK` could query it, but on Linux it does not see the flock that daemons of earlier releases
hold.
"""

from __future__ import annotations

import contextlib
import random
import time
from pathlib import Path
from typing import TYPE_CHECKING

from armada.errors import Conflict
from armada.foundation import process_identity
from armada.foundation.locks import FileLock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from armada.paths import HomePaths


_AGAIN_S = 0.005
"""Upper limit of the pause between retries; a check holds the lock for some microseconds."""


def lock_file(home: HomePaths) -> Path:
    return home.daemon / "lock"


@contextlib.contextmanager
def only_instance(home: HomePaths) -> Iterator[None]:
    """Hold the lock that makes this process the daemon of this home.

    Raises:
        Conflict: Another process holds it; the error names that process.
    """
    with FileLock(lock_file(home)) as lock:
        if not _take(lock):
            held = _read(lock)
            who = f"process {held.pid}" if held else "another process"
            raise Conflict(f"{who} is this home's daemon already", hint="armada daemon status")
        lock.write_holder(process_identity.current()._asdict())
        yield


def _take(lock: FileLock) -> bool:
    """Take the lock exclusively, retrying while only checks hold it; return False if another daemon has it or is starting."""
    while not lock.try_acquire():
        if not lock.try_acquire(shared=True):
            return False
        lock.release()
        time.sleep(random.uniform(0.0, _AGAIN_S))  # noqa: S311  # random: two starters must not keep colliding
    return True


def is_held(home: HomePaths) -> bool:
    """Whether a daemon is running now."""
    try:
        with FileLock(lock_file(home), create=False) as lock:
            # Shared, so that two simultaneous checks do not take each other for the daemon.
            return not lock.try_acquire(shared=True)
    except FileNotFoundError:
        return False


def holder(home: HomePaths) -> process_identity.Process | None:
    """Return the daemon's process, if there is one and it recorded its id."""
    if not is_held(home):
        return None
    with FileLock(lock_file(home), create=False) as lock:
        return _read(lock)


def _read(lock: FileLock) -> process_identity.Process | None:
    try:
        told = lock.read_holder() or {}
        return process_identity.Process(int(told["pid"]), told["start_time"], told["boot_id"])
    except (ValueError, KeyError, TypeError):
        return None  # it has not recorded its id yet
