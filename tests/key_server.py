"""An SSH server that shows its key and lets nobody in: enough for whatever asks a host for its key."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import TYPE_CHECKING

import paramiko

from armada.transport.ssh.host_keys import HostKey

if TYPE_CHECKING:
    from collections.abc import Iterator


class KeyServer:
    """Paramiko's own server, on a port of this machine.

    Args:
        key: It shows.

    Attributes:
        asked: How often somebody connected.
    """

    def __init__(self, key: paramiko.PKey) -> None:
        self.key = key
        self.asked = 0
        self._open: list[paramiko.Transport] = []
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        return int(self._socket.getsockname()[1])

    @property
    def target(self) -> str:
        return f"me@127.0.0.1:{self.port}"

    @property
    def fingerprint(self) -> str:
        return HostKey("any", self.key.get_name(), self.key.get_base64()).fingerprint

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                channel, _ = self._socket.accept()
                self.asked += 1
                transport = paramiko.Transport(channel)
                transport.add_server_key(self.key)
                self._open.append(transport)
                transport.start_server(event=threading.Event(), server=paramiko.ServerInterface())

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join()
        for transport in self._open:
            transport.close()


@contextlib.contextmanager
def key_servers(keys: str) -> Iterator[list[KeyServer]]:
    """Start a server for each letter; those of the same letter show the same key."""
    made = {letter: paramiko.ECDSAKey.generate() for letter in keys}
    servers = [KeyServer(made[letter]) for letter in keys]
    try:
        yield servers
    finally:
        for server in servers:
            server.close()
