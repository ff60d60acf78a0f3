"""A port of this machine that a program of a test can listen on."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator


@contextlib.contextmanager
def kept_free() -> Iterator[int]:
    """Keep a port on 127.0.0.1 from connections and servers that ask for any port.

    One that was only free a moment ago may be somebody's: each connection of the tests beside takes one.
    What is told this number and sets SO_REUSEADDR, as ssh and armada do, can listen there.
    """
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        yield int(held.getsockname()[1])
