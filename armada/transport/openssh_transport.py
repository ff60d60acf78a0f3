"""SSH by OpenSSH itself: every channel, stream and rsync uses one shared connection (see shared_connection.py)."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from armada.errors import HostUnreachable, LinkLost
from armada.paths import HomePaths
from armada.transport.bulk import SSH_FAILED, BulkChannel, start_ssh
from armada.transport.interface import HostLike, ProgressCallback, Pull
from armada.transport.rsync import program
from armada.transport.rsync import pull as rsync_pull
from armada.transport.rsync.errors import NO_SESSION, explain_exit, no_session
from armada.transport.ssh.host_keys import pinned_keys
from armada.transport.ssh.resolve import HostSpec, resolve
from armada.transport.ssh.shared_connection import SharedConnection

_GOODBYE_S = 1.0
_REOPEN_S = 30.0


def connect_openssh(host: HostLike, home: HomePaths, *, deadline_s: float) -> OpensshTransport:
    """Resolve a host and open its shared connection if needed and allowed. Raises as armada.transport.connect does."""
    spec = resolve(host)
    connection = SharedConnection(spec, home)
    connection.ensure(deadline_s)
    return OpensshTransport(host, spec, home, connection)


class SharedChannel(BulkChannel):
    """A bootstrap in a session on the shared connection."""

    def __init__(self, spec: HostSpec, home: HomePaths, connection: SharedConnection) -> None:
        self._connection = connection
        self._pid = connection.pid()
        super().__init__(start_ssh(spec, home), spec, home)

    def read(self) -> bytes:
        """Return the bytes that have arrived, b"" at the end of the program.

        Raises:
            HostUnreachable: No session could be opened, or (LinkLost) the connection was lost.
        """
        try:
            data = os.read(self._stdout.fileno(), 1 << 16)
        except (OSError, ValueError) as error:
            raise LinkLost("the channel was closed", host=self._host) from error
        if not data and (failure := self._failure_of_ssh()) is not None:
            raise failure
        return data

    @property
    def closed(self) -> bool:
        return self._stdin.closed

    def close(self) -> None:
        # The program's input ends whether ssh exits cleanly or is killed; on a dead link it would never exit cleanly.
        self._stdin.close()
        try:
            self._process.wait(_GOODBYE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _failure_of_ssh(self) -> HostUnreachable | None:
        """Return the error if ssh failed; None if the program itself ended."""
        if self._ended() not in {SSH_FAILED, None}:
            return None
        said = self._errors.text(wait_s=0.5)
        pinned, reuse_only = pinned_keys(self._home), self._spec.reuse_only
        error = explain_exit(SSH_FAILED, said, host=self._host, pinned=pinned, reuse_only=reuse_only)
        if isinstance(error, HostUnreachable) and not isinstance(error, LinkLost):
            return error
        if NO_SESSION in said:  # ssh then tried a connection of its own
            return LinkLost(
                f"{no_session(self._host).message}, nor another connection", hint="run it again", host=self._host
            )
        # ssh also exits with 255 if a signal ended the program; the connection then still has the same process.
        if self._pid is not None and self._connection.pid() == self._pid:
            return None
        return self._connection.lost()


class OpensshTransport:
    """A host reached through its shared connection. Closing this closes the channels; the connection stays for the next command."""

    def __init__(self, host: HostLike, spec: HostSpec, home: HomePaths, connection: SharedConnection) -> None:
        self._host = host
        self._spec = spec
        self._home = home
        self._connection = connection
        self._channels: list[SharedChannel] = []

    @property
    def host(self) -> HostLike:
        return self._host

    @property
    def round_trip_s(self) -> float | None:
        return None

    def open_direct_channel(self) -> None:
        """Return None: every channel already uses the shared connection, with the 2 MiB window that ssh grants each."""

    def open_channel(self) -> SharedChannel:
        if self._connection.pid() is None:
            raise self._connection.lost()
        return self._channel()

    def open_bulk_channel(self) -> SharedChannel:
        self._connection.ensure(_REOPEN_S)  # a caller in a transfer cannot replace the transport by a new one
        return self._channel()

    def push(
        self, source: Path, files: Sequence[str], destination: str, progress: ProgressCallback | None = None
    ) -> None:
        self._connection.ensure(_REOPEN_S)
        program.push(self._spec, self._home, source, files, destination, progress)

    def pull(self, wanted: Pull, progress: ProgressCallback | None = None) -> None:
        self._connection.ensure(_REOPEN_S)
        rsync_pull.pull(self._spec, self._home, wanted, progress)

    def _channel(self) -> SharedChannel:
        self._channels = [channel for channel in self._channels if not channel.closed]
        self._channels.append(SharedChannel(self._spec, self._home, self._connection))
        return self._channels[-1]

    def close(self) -> None:
        while self._channels:
            with contextlib.suppress(OSError):  # its ssh may have ended already
                self._channels.pop().close()
