"""Measure the round trip and the bandwidth to a host, with few round trips and at most 6 MB each way."""

from __future__ import annotations

import base64
import os
import statistics
import time
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from armada.protocol.host import Probe
from armada.sync.transfer.bandwidth import allowance_for

if TYPE_CHECKING:
    from collections.abc import Callable

    from armada.paths import HomePaths
    from armada.rpc.byte_stream import Stream
    from armada.rpc.session import HostSession

ROUND_TRIPS = 7
_FIRST_BYTES = 256 << 10
_MOST_BYTES = 4 << 20
_AIM_S = 1.0


@dataclass(frozen=True, slots=True)
class Measured:
    """The measured connection to one host.

    Attributes:
        round_trip_s: Median of seven requests to the agent, including the agent's own work.
        spread_s: The shortest and the longest of them.
        clock_off_s: The host's clock minus home's; positive if the host's clock is ahead. The error is at most half the
            shortest round trip.
        down_bytes_per_s: From the host to home, over one connection.
        up_bytes_per_s: From home to the host.
        limited: A `bwlimit` in hosts.yaml limited the measurement.
    """

    round_trip_s: float
    spread_s: tuple[float, float]
    clock_off_s: float
    down_bytes_per_s: float | None
    up_bytes_per_s: float | None
    limited: bool


def measure(session: HostSession, home: HomePaths, clock: Callable[[], float] = time.time) -> Measured:
    """Measure the connection to a host that answers.

    Raises:
        HostUnreachable: The connection was lost.
        ConfigError: The limits in hosts.yaml are invalid.
    """
    samples = []
    for _ in range(ROUND_TRIPS):
        before, began = clock(), time.perf_counter()
        answer = session.call(Probe(send_bytes=0, padding=""))
        took_s = time.perf_counter() - began
        samples.append((took_s, answer.time - (before + took_s / 2)))
    took = [sample[0] for sample in samples]
    limits = [rate for rate in (session.host.bytes_per_s, _home_rate(home)) if rate is not None]
    down = up = None
    if not session.host.local:
        with closing(session.open_stream()) as stream:
            _exchange(stream, 0, 0)  # exclude the handshake and the agent's start
            down = _rate(lambda size: _take(stream, session, home, size), min(limits, default=None))
            up = _rate(lambda size: _exchange(stream, 0, size), min(limits, default=None))
    return Measured(
        statistics.median(took),
        (min(took), max(took)),
        min(samples)[1],
        down,
        up,
        bool(limits) and not session.host.local,
    )


def _rate(move: Callable[[int], float], limit: float | None) -> float:
    """Return the rate in bytes per second. A small transfer determines the size of one that takes about a second."""
    most = _MOST_BYTES if limit is None else max(4096, min(_MOST_BYTES, int(limit * _AIM_S)))
    size = min(_FIRST_BYTES, most)
    took_s = move(size)
    larger = int(min(most, size / max(took_s, 1e-6) * _AIM_S))
    if larger > size:
        size, took_s = larger, move(larger)
    return size / max(took_s, 1e-6)


def _take(stream: Stream, session: HostSession, home: HomePaths, size: int) -> float:
    """Fetch under the limits of transfers, so that other transfers keep their share."""
    took_s = _exchange(stream, size, 0)
    began = time.perf_counter()
    allowance_for(home, session.host, None).take(size, lambda: None)
    return took_s + time.perf_counter() - began


def _exchange(stream: Stream, down_bytes: int, up_bytes: int) -> float:
    # Random, so that a compressing connection does not look faster than it is; base64, because it travels in JSON.
    padding = base64.b64encode(os.urandom(up_bytes * 3 // 4)).decode("ascii")
    request = Probe(send_bytes=down_bytes, padding=padding)
    began = time.perf_counter()
    stream.exchange(request, lambda echo: echo.size_bytes)
    return time.perf_counter() - began


def _home_rate(home: HomePaths) -> float | None:
    from armada.config.hosts import home_bytes_per_s

    return home_bytes_per_s(home)
