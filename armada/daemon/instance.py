"""Allow one daemon per home: the daemon is the process that holds the lock. The kernel frees the lock when that process ends.

A look takes the lock shared for a moment, since flock cannot be asked without taking it. A starter that meets a look therefore
tries again. It gives up only when the lock is held exclusively, which a look never does. Linux and macOS behave alike here.
`F_GETLK` would ask without taking, but on Linux it does not see the flock that daemons of earlier releases hold.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import json
import os
import random
import time
from pathlib import Path
from typing import TYPE_CHECKING

from armada.errors import Conflict
from armada.foundation import process_identity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from armada.paths import HomePaths


_AGAIN_S = 0.005
"""A look holds the lock for some microseconds."""


def lock_file(home: HomePaths) -> Path:
    return home.daemon / "lock"


@contextlib.contextmanager
def only_instance(home: HomePaths) -> Iterator[None]:
    """Hold the lock that makes this process the daemon of this home.

    Raises:
        Conflict: Another process is; it is named.
    """
    home.daemon.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(lock_file(home), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if not _take(descriptor):
            held = _read(descriptor)
            who = f"process {held.pid}" if held else "another process"
            raise Conflict(f"{who} is this home's daemon already", hint="armada daemon status")
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps(dataclasses.asdict(process_identity.current())).encode(), 0)
        yield
    finally:
        os.close(descriptor)


def _take(descriptor: int) -> bool:
    """Take the lock exclusively, past those who only look; false when another daemon, or one that just starts, has it."""
    while True:
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        time.sleep(random.uniform(0.0, _AGAIN_S))  # noqa: S311  # two starters must not keep meeting each other's try


def is_held(home: HomePaths) -> bool:
    """Whether a daemon is running now."""
    try:
        descriptor = os.open(lock_file(home), os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        # Shared, so that two who look at the same time do not take each other for the daemon.
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def holder(home: HomePaths) -> process_identity.Process | None:
    """Return the daemon's process, if there is one and it recorded its id."""
    if not is_held(home):
        return None
    descriptor = os.open(lock_file(home), os.O_RDONLY | os.O_CLOEXEC)
    try:
        return _read(descriptor)
    finally:
        os.close(descriptor)


def _read(descriptor: int) -> process_identity.Process | None:
    try:
        told = json.loads(os.pread(descriptor, 4096, 0))
        return process_identity.Process(int(told["pid"]), told["start_time"], told["boot_id"])
    except (ValueError, KeyError, TypeError):
        return None  # it took the lock an instant ago
