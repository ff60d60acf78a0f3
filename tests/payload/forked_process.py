"""A process that a fork server starts, for those who know subprocess.Popen: standard library alone, any Python's."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

LARGEST_MESSAGE = 200_000


class ForkedProcess:
    """Takes what Popen takes, as far as it is needed here; standard input is always empty.

    Args:
        args: A command line of Python: `-u` or nothing, then `-m MODULE`, `-c PROGRAM` or a script, and its arguments.
        server: The socket of the fork server.
        env: The whole environment; None is this process's own.
        cwd: None is this process's own.
        stdout: subprocess.PIPE, subprocess.DEVNULL, an open file or its number; None is this process's own.
        stderr: The same, or subprocess.STDOUT.
        start_new_session: True or not, it always has a session of its own.
        text: Always true.

    Raises:
        ValueError: The fork server cannot be what a new process would be: the message says why.
    """

    def __init__(
        self,
        args: Sequence[str],
        *,
        server: str,
        env: Mapping[str, str] | None = None,
        cwd: str | Path | None = None,
        stdout: int | IO[Any] | None = None,
        stderr: int | IO[Any] | None = None,
        start_new_session: bool = True,
        text: bool = True,
    ) -> None:
        self.args = list(args)
        self.returncode: int | None = None
        self.stdout: IO[str] | None = None
        self._connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._connection.connect(server)
        opened: list[int] = []
        output = self._writable(stdout, 1, opened)
        errors = output if stderr == subprocess.STDOUT else self._writable(stderr, 2, opened)
        request = {
            "args": [str(word) for word in args],
            "env": dict(os.environ if env is None else env),
            "cwd": str(cwd or Path.cwd()),
        }
        socket.send_fds(self._connection, [json.dumps(request).encode()], [output, errors])
        for descriptor in opened:
            os.close(descriptor)
        answer = self._receive()
        if "refused" in answer:
            raise ValueError(answer["refused"])
        self.pid: int = answer["pid"]

    def _writable(self, wanted: int | IO[Any] | None, own: int, opened: list[int]) -> int:
        if wanted is None:
            return own
        if wanted == subprocess.PIPE:
            reading, writing = os.pipe()
            self.stdout = os.fdopen(reading, encoding="utf-8", errors="replace")
            opened.append(writing)
            return writing
        if wanted == subprocess.DEVNULL:
            opened.append(os.open(os.devnull, os.O_WRONLY))
            return opened[-1]
        return wanted if isinstance(wanted, int) else wanted.fileno()

    def _receive(self) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(self._connection.recv(LARGEST_MESSAGE) or '{"code": -9}')
        return answer

    def poll(self) -> int | None:
        if self.returncode is None and select.select([self._connection], [], [], 0)[0]:
            self._take_code()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            if not select.select([self._connection], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
            self._take_code()
        assert self.returncode is not None
        return self.returncode

    def _take_code(self) -> None:
        self.returncode = self._receive()["code"]
        self._connection.close()

    def communicate(self, timeout: float | None = None) -> tuple[str, None]:
        """Read what it prints to the end, and wait for its own end."""
        ends_at = time.monotonic() + (timeout if timeout is not None else 86400)
        chunks: list[bytes] = []
        if self.stdout is not None:
            descriptor = self.stdout.fileno()
            while True:
                if not select.select([descriptor], [], [], max(0, ends_at - time.monotonic()))[0]:
                    raise subprocess.TimeoutExpired(self.args, timeout or 0, b"".join(chunks))
                chunk = os.read(descriptor, 1 << 16)
                if not chunk:
                    break
                chunks.append(chunk)
            self.stdout.close()
            self.stdout = None
        self.wait(max(0, ends_at - time.monotonic()))
        return b"".join(chunks).decode(errors="replace"), None

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)
