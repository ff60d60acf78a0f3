"""Open TCP sockets for control connections: low latency, and quick detection of a dead peer."""

from __future__ import annotations

import socket
import sys
import time

# 10 + 3 × 5 s: a dead link is noticed within 25 s, idle or not.
_KEEPALIVE_IDLE_S, _KEEPALIVE_INTERVAL_S, _KEEPALIVE_COUNT = 10, 5, 3
_UNACKNOWLEDGED_MS = 25_000

_FAMILIES = {"any": socket.AF_UNSPEC, "inet": socket.AF_INET, "inet6": socket.AF_INET6}


def open_socket(hostname: str, port: int, *, family: str, timeout_s: float) -> socket.socket:
    """Connect to the first address that answers.

    Args:
        hostname: A name or an address.
        port: The port.
        family: `any`, `inet` or `inet6`.
        timeout_s: For all addresses together, in seconds.

    Raises:
        OSError: No address answers; socket.gaierror if the name has none.
    """
    deadline = time.monotonic() + timeout_s
    last_error: OSError = TimeoutError(f"no answer within {timeout_s:.0f} s")
    for kind, _, _, _, address in socket.getaddrinfo(hostname, port, _FAMILIES[family], socket.SOCK_STREAM):
        connection = socket.socket(kind, socket.SOCK_STREAM)
        try:
            _prepare(connection)
            connection.settimeout(max(0.1, deadline - time.monotonic()))
            connection.connect(address[:4] if kind == socket.AF_INET6 else address[:2])
        except OSError as error:
            connection.close()
            last_error = error
        else:
            return connection
    raise last_error


def _prepare(connection: socket.socket) -> None:
    # Nagle's algorithm turns a round trip of 2 ms into 44 ms: Paramiko writes small packets and never disables it.
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if sys.platform == "darwin":
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPALIVE, _KEEPALIVE_IDLE_S)
    else:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _KEEPALIVE_IDLE_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _KEEPALIVE_INTERVAL_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, _KEEPALIVE_COUNT)
    if sys.platform == "linux":  # keepalive does not run while data waits to be acknowledged
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _UNACKNOWLEDGED_MS)
