"""The host `local`: this machine, without SSH."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from armada.errors import HostUnreachable, LinkLost
from armada.transport.bootstrap import LOADER
from armada.transport.copying import copy_files
from armada.transport.interface import HostLike, ProgressCallback, Pull
from armada.transport.ssh.names import checked_remote_folder
from armada.transport.stderr_tail import StderrTail

_END_WAIT_S = 5.0


class LocalChannel:
    """A bootstrap running as a child process."""

    def __init__(self, process: subprocess.Popen[bytes], host: str) -> None:
        if process.stdin is None or process.stdout is None or process.stderr is None:
            raise ValueError("`process` needs three pipes")
        self._process = process
        self._host = host
        self._stdin, self._stdout, stderr = process.stdin, process.stdout, process.stderr
        self._errors = StderrTail(lambda: os.read(stderr.fileno(), 65536), name=f"stderr of {host}")

    def write(self, data: bytes) -> None:
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[os.write(self._stdin.fileno(), rest) :]
        except (OSError, ValueError) as error:
            raise LinkLost("the agent has ended", host=self._host) from error

    def read(self) -> bytes:
        try:
            return os.read(self._stdout.fileno(), 65536)
        except (OSError, ValueError) as error:
            raise LinkLost("the channel was closed", host=self._host) from error

    def close(self) -> None:
        self._stdin.close()
        try:
            self._process.wait(_END_WAIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def diagnosis(self) -> str:
        try:
            ended = f"exit status {self._process.wait(_END_WAIT_S)}"
        except subprocess.TimeoutExpired:
            ended = "still running"
        said = self._errors.text(wait_s=0.2)
        return f"{said}\n({ended})" if said else f"({ended})"


class LocalTransport:
    """A transport whose channels are child processes and whose transfers are local copies.

    Args:
        host: The configured host.
        python: The interpreter to run the bootstrap with; by default the one that runs armada.
    """

    def __init__(self, host: HostLike, *, python: str | None = None) -> None:
        self._host = host
        self._command = f'{shlex.quote(python or sys.executable or "python3")} -c "{LOADER}"'
        self._channels: list[LocalChannel] = []

    @property
    def host(self) -> HostLike:
        return self._host

    @property
    def round_trip_s(self) -> float | None:
        return None

    def open_direct_channel(self) -> None:
        return None

    def open_channel(self) -> LocalChannel:
        try:
            process = subprocess.Popen(
                ["/bin/sh", "-c", f"exec {self._command}"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,  # with a buffered pipe, a blocked write would hold the lock that `close` needs
                cwd="/",  # armada's own working folder may contain a json.py, or be deleted
                start_new_session=True,  # keeps Ctrl-C for armada, which then closes the channel
            )
        except OSError as error:
            raise HostUnreachable(f"cannot start a process: {error.strerror}", host=self._host.name) from error
        channel = LocalChannel(process, self._host.name)
        self._channels.append(channel)
        return channel

    def open_bulk_channel(self) -> LocalChannel:
        return self.open_channel()

    def push(
        self, source: Path, files: Sequence[str], destination: str, progress: ProgressCallback | None = None
    ) -> None:
        target = Path(checked_remote_folder(destination, host=self._host.name))
        copy_files(source, files, target, host=self._host.name, progress=progress)

    def pull(self, wanted: Pull, progress: ProgressCallback | None = None) -> None:
        from armada.transport.rsync.pull import pull_here

        pull_here(self._host.name, wanted, progress)

    def close(self) -> None:
        while self._channels:
            self._channels.pop().close()
