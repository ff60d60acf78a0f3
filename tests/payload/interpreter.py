"""The payload's Python: processes of it, new or forked from one that has imported everything."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.payload.forked_process import LARGEST_MESSAGE, ForkedProcess

PAYLOAD = Path(__file__).parents[2] / "remote_payload"
LONGEST_S = 500
"""A process that takes longer hangs."""

Process = subprocess.Popen[str] | ForkedProcess


@dataclass
class Ended:
    """How a process ended, and what it printed."""

    code: int
    output: str


class Interpreter:
    """Starts the payload's Python.

    Args:
        path: The program.
        folder: Gets the libraries' caches and the fork server's socket.
        bare: The fork server imports nothing.
    """

    def __init__(self, path: str, folder: Path, *, bare: bool = False) -> None:
        self.path = path
        self.folder = folder
        self._options = ["--bare"] if bare else []
        self._server: subprocess.Popen[bytes] | None = None

    @property
    def environment(self) -> dict[str, str]:
        """What every process has; the payload's own code is what it imports first."""
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        return {
            **kept,
            "PYTHONPATH": str(PAYLOAD),
            "PYTHONSAFEPATH": "1",
            "OMP_NUM_THREADS": "1",
            "CUDA_VISIBLE_DEVICES": "",
            "HF_HOME": str(self.folder / "huggingface"),
        }

    def start(
        self,
        *arguments: str,
        fresh: bool = False,
        cwd: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> Process:
        """Start a program; `fresh` is a new process, for what fork_server.py says that a forked one does not prove."""
        argv = [self.path, *arguments]
        env = {**self.environment, **(environment or {})}
        if fresh:
            return subprocess.Popen(
                argv, cwd=cwd, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
            )
        return ForkedProcess(
            argv, server=self.socket(), cwd=cwd, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )

    def told(self, code: str) -> dict[str, Any]:
        """Run code to its end, and return the JSON that it prints last."""
        ended = self.finish("-c", code)
        assert ended.code == 0, ended.output
        found: dict[str, Any] = json.loads(ended.output.splitlines()[-1])
        return found

    def finish(self, *arguments: str, **options: Any) -> Ended:
        return wait_for_end(self.start(*arguments, **options))

    def started(self) -> dict[int, dict[str, Any]]:
        """List what the fork server started and what has not ended yet: pid → request."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
            connection.connect(self.socket())
            connection.send(b'{"list": true}')
            found: dict[str, dict[str, Any]] = json.loads(connection.recv(LARGEST_MESSAGE))
        return {int(pid): request for pid, request in found.items()}

    def socket(self) -> str:
        """Name the fork server's socket; the first who asks starts it."""
        path = str(self.folder / "forks")
        if self._server is None:
            environment = {
                **self.environment,
                # What the payload sets before it imports these libraries.
                "HF_HUB_OFFLINE": "1",
                "HF_HUB_DISABLE_TELEMETRY": "1",
                "HF_HUB_DISABLE_PROGRESS_BARS": "1",
                "HF_DATASETS_DISABLE_PROGRESS_BARS": "1",
                "JE_ARROW_MALLOC_CONF": "background_thread:false",  # no thread may be alive at a fork
            }
            del environment["PYTHONPATH"]
            self._server = subprocess.Popen(
                [self.path, "-P", str(Path(__file__).with_name("fork_server.py")), path, *self._options],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=environment,
                cwd=self.folder,
                start_new_session=True,  # a signal to the tests' group is none to it: it ends after them
            )
            assert self._server.stdout is not None
            answer = self._server.stdout.readline()
            assert answer == b"ready\n", f"the fork server said {answer!r} and ended with {self._server.poll()}"
        return path

    def close(self) -> None:
        """End the fork server and all that it started."""
        if self._server is not None:
            assert self._server.stdin is not None
            self._server.stdin.close()
            self._server.wait()


def wait_for_end(process: Process) -> Ended:
    output, _ = process.communicate(timeout=LONGEST_S)
    assert process.returncode is not None
    return Ended(process.returncode, output)
