"""Open channels for bulk data: each is an OpenSSH process with its own TCP connection.

Paramiko stalls on bulk data (paramiko #822). One OpenSSH connection moves at most 2 MiB per round trip, so distant
hosts need several. The command line is the bootstrap's constant one.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import subprocess
from typing import TYPE_CHECKING

from armada.errors import HostUnreachable, LinkLost
from armada.transport.bootstrap import COMMAND
from armada.transport.local import LocalChannel
from armada.transport.rsync.errors import explain_exit
from armada.transport.ssh.config_file import write_ssh_config
from armada.transport.ssh.host_keys import pinned_keys

if TYPE_CHECKING:
    from armada.paths import HomePaths
    from armada.transport.ssh.resolve import HostSpec

_PIPE_BYTES = 1 << 20
_F_SETPIPE_SZ = 1031  # Linux; absent from fcntl before Python 3.10 and on other systems
SSH_FAILED = 255


class BulkChannel(LocalChannel):
    """A bootstrap on the host, reached by its own ssh process."""

    def __init__(self, process: subprocess.Popen[bytes], spec: HostSpec, home: HomePaths) -> None:
        super().__init__(process, spec.name)
        self._spec = spec
        self._home = home
        with contextlib.suppress(OSError):  # a larger pipe saves wake-ups, but is optional
            fcntl.fcntl(self._stdout.fileno(), _F_SETPIPE_SZ, _PIPE_BYTES)

    def read(self) -> bytes:
        """Return the bytes that have arrived.

        Raises:
            HostUnreachable: The connection could not be made, or (LinkLost) was lost.
        """
        try:
            data = os.read(self._stdout.fileno(), _PIPE_BYTES)
        except (OSError, ValueError) as error:
            raise LinkLost("the channel was closed", host=self._host) from error
        if not data and (status := self._ended()) != 0:
            raise self._failure(status)
        return data

    def close(self) -> None:
        """Kill ssh. A clean exit would take a round trip; the agent only sees the end of the connection either way."""
        with contextlib.suppress(OSError):
            self._process.terminate()
        super().close()

    def _ended(self) -> int | None:
        try:
            return self._process.wait(5.0)
        except subprocess.TimeoutExpired:
            return None

    def _failure(self, status: int | None) -> HostUnreachable:
        said = self._errors.text(wait_s=0.5)
        if status == SSH_FAILED:
            error = explain_exit(status, said, host=self._host, pinned=pinned_keys(self._home))
            if isinstance(error, HostUnreachable) and not isinstance(error, LinkLost):
                return error
        last = said.splitlines()[-1] if said else f"ssh ended with {status}"
        return LinkLost(f"the transfer was interrupted: {last}", hint="run it again", host=self._host)


def open_bulk_channel(spec: HostSpec, home: HomePaths) -> BulkChannel:
    """Start the bootstrap on a host over a new connection. If connecting fails, the first `read` raises."""
    return BulkChannel(start_ssh(spec, home), spec, home)


def start_ssh(spec: HostSpec, home: HomePaths) -> subprocess.Popen[bytes]:
    """Start ssh with the bootstrap as its remote command. Raises HostUnreachable if there is no ssh."""
    config = write_ssh_config(spec, home)
    try:
        return subprocess.Popen(
            ["ssh", "-F", config.name, "-T", spec.alias, COMMAND],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            cwd=config.parent,  # ssh passes a -F with a space in it unquoted to the ssh of its jump hosts; a plain file name is safe
            start_new_session=True,  # keeps Ctrl-C for armada
        )
    except OSError as error:
        raise HostUnreachable(f"cannot start ssh: {error.strerror}", host=spec.name) from error
