"""Notify the service manager (sd_notify): ready, alive, stopping. Each is one datagram and needs no library."""

from __future__ import annotations

import logging
import os
import socket

log = logging.getLogger(__name__)


def notify(*words: str) -> bool:
    """Send a message such as `READY=1` to systemd, if it started this process and expects it.

    Returns:
        Whether there was a service manager, and the message was sent.
    """
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return False
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | getattr(socket, "SOCK_CLOEXEC", 0)) as channel:
            channel.connect("\0" + address[1:] if address.startswith("@") else address)
            channel.sendall("\n".join(words).encode())
    except OSError as error:
        log.warning("cannot notify systemd of %s: %s", words, error)
        return False
    return True
