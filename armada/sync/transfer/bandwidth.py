"""Limit the bandwidth: per run, per host and for all of home, shared fairly by the running transfers.

A limit shared by several processes (the daemon, `sync now`, `pull`) is a moment stored in a file: when the next byte
may pass. To reserve bytes, a process advances that moment and waits until then. Each transfer asks for one small piece
at a time, however many streams it has, so waiting transfers take turns and get equal shares; what one does not use is
left to the others.
"""

from __future__ import annotations

import os
import struct
import threading
import time
from typing import TYPE_CHECKING, Protocol

from armada.config.hosts import home_bytes_per_s
from armada.errors import ConfigError
from armada.foundation.locks import locked

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from armada.config.hosts import Host
    from armada.paths import HomePaths

BURST_S = 0.25
"""How much unused bandwidth of the last moments may be caught up on, in seconds."""

TURN_S = 0.1
"""Duration of one turn at the lowest limit, in seconds; short, so that many transfers wait only briefly."""

LEAST_PIECE_BYTES = 4 << 10
MOST_PIECE_BYTES = 256 << 10
NEVER_S = 120.0
"""A stored moment further ahead than any queue is from before a reboot, which resets the clock to 0."""

_MOMENT = struct.Struct("<d")
_remembered: dict[Path, tuple[int, float | None]] = {}
"""By hosts file: its modification time and the limit in it. Reading the file costs more than a sync that finds nothing new."""


class Limit(Protocol):
    """A rate in bytes per second."""

    @property
    def bytes_per_s(self) -> float: ...

    def reserve(self, size_bytes: int) -> float:
        """Reserve so many bytes; return the seconds until they may pass."""


class OwnLimit:
    """A limit that is not shared."""

    def __init__(self, bytes_per_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.bytes_per_s = bytes_per_s
        self._clock = clock
        self._free_at = 0.0

    def reserve(self, size_bytes: int) -> float:
        now = self._clock()
        self._free_at = max(self._free_at, now - BURST_S) + size_bytes / self.bytes_per_s
        return self._free_at - now


class SharedLimit:
    """A limit shared by every process that uses the same file.

    Args:
        file: The file, created if missing; 8 bytes.
        bytes_per_s: The limit.
        clock: Seconds since boot, so that all processes use the same clock.
    """

    def __init__(self, file: Path, bytes_per_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.bytes_per_s = bytes_per_s
        self._file = file
        self._clock = clock

    def reserve(self, size_bytes: int) -> float:
        with locked(self._file) as lock:  # opened again each time: threads must exclude each other too
            now = self._clock()
            kept = os.pread(lock.descriptor, _MOMENT.size, 0)
            free_at = _MOMENT.unpack(kept)[0] if len(kept) == _MOMENT.size else 0.0
            if not now - BURST_S <= free_at <= now + NEVER_S:
                free_at = now - BURST_S
            free_at += size_bytes / self.bytes_per_s
            os.pwrite(lock.descriptor, _MOMENT.pack(free_at), 0)
        return free_at - now


class Allowance:
    """The bandwidth of one transfer under all limits that apply to it; unlimited without any."""

    def __init__(self, limits: Sequence[Limit], pause: Callable[[float], None] = time.sleep) -> None:
        self.limits = limits
        self._pause = pause
        self._turn = threading.Lock()
        slowest = min((limit.bytes_per_s for limit in limits), default=0.0)
        self._piece_bytes = int(min(MOST_PIECE_BYTES, max(LEAST_PIECE_BYTES, slowest * TURN_S)))

    def take(self, size_bytes: int, waiting: Callable[[], None]) -> None:
        """Wait until so many bytes may have passed.

        Args:
            size_bytes: How many bytes just arrived.
            waiting: Called every second during the wait; an exception from it ends the wait.
        """
        if not self.limits:
            return
        while not self._turn.acquire(timeout=1.0):  # another stream of this transfer waits
            waiting()
        try:
            while size_bytes > 0:
                piece = min(size_bytes, self._piece_bytes)
                size_bytes -= piece
                wait_s = max(limit.reserve(piece) for limit in self.limits)
                while wait_s > 0:
                    self._pause(min(1.0, wait_s))
                    wait_s -= 1.0
                    waiting()
        finally:
            self._turn.release()


def allowance_for(home: HomePaths, host: Host, run_bytes_per_s: float | None) -> Allowance:
    """Combine the limits of hosts.yaml with a run's own.

    Args:
        home: Has the hosts.yaml.
        host: The host that bytes come from.
        run_bytes_per_s: `sync.bwlimit` of the run.

    Raises:
        ConfigError: hosts.yaml is invalid, and this process has not read a valid one before.
    """
    limits: list[Limit] = []
    folder = home.lock("bandwidth").parent
    for name, rate in (("home", _home_limit(home)), (f"host-{host.name}", host.bytes_per_s)):
        if rate is not None:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            limits.append(SharedLimit(home.lock(f"bandwidth-{name}"), rate))
    if run_bytes_per_s is not None:
        limits.append(OwnLimit(run_bytes_per_s))
    return Allowance(limits)


def _home_limit(home: HomePaths) -> float | None:
    """Return the limit in the file; while that is invalid, a daemon continues with the last valid one."""
    file = home.hosts_file
    try:
        changed_ns = file.stat().st_mtime_ns
    except OSError:
        _remembered.pop(file, None)
        return None
    if file not in _remembered or _remembered[file][0] != changed_ns:
        try:
            _remembered[file] = (changed_ns, home_bytes_per_s(home))
        except ConfigError:
            if file not in _remembered:
                raise
    return _remembered[file][1]
