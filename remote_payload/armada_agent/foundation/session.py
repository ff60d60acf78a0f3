"""State that the threads of one connection share: the output stream, and the child processes that end with the connection."""

import contextlib
import json
import os
import signal
import subprocess
import threading
from typing import Any, BinaryIO, Callable, Dict, Optional, Sequence, Set

from armada_agent.errors import AgentError


class Children:
    """Processes that must not outlive the connection, such as environment builds. Supervisors are never among them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._living: "Set[subprocess.Popen[bytes]]" = set()
        self._closed = False

    def run(
        self,
        argv: Sequence[str],
        env: Dict[str, str],
        on_line: Callable[[str], None],
        inherit: Sequence[int] = (),
        stdin: bytes = b"",
    ) -> int:
        """Run a child to its end and pass on each line that it prints.

        Args:
            argv: Program and arguments.
            env: The child's whole environment.
            on_line: Called with each line of the child's stdout and stderr.
            inherit: Descriptors that the child keeps open, so that a lock outlives this process while the child works
                under it.
            stdin: What the child reads. It must be short: all of it is written before any output is read.

        Returns:
            The exit code, negative for a signal.
        """
        with self._lock:
            if self._closed:
                raise AgentError("internal", "the connection is closed")
            child = subprocess.Popen(
                list(argv),
                env=env,
                stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                pass_fds=list(inherit),
                start_new_session=True,
            )
            self._living.add(child)
        try:
            with child:
                if child.stdin is not None:
                    with contextlib.suppress(BrokenPipeError):  # the child has already ended; its output says why
                        child.stdin.write(stdin)
                        child.stdin.close()
                for line in child.stdout or ():
                    on_line(line.decode("utf-8", "replace").rstrip())
            return child.returncode
        finally:
            with self._lock:
                self._living.discard(child)

    def end_all(self) -> None:
        """Kill every child and its process group, and refuse to start any more."""
        with self._lock:
            self._closed = True
            for child in self._living:
                if child.poll() is None:
                    with contextlib.suppress(ProcessLookupError):  # the child ended between the two calls
                        os.killpg(child.pid, signal.SIGKILL)


class Session:
    """One connection with home.

    Attributes:
        root: Absolute path of the host's root folder.
        agent_path: The zipapp that runs; supervisors are started from it.
        input: The stream of requests; after some requests, it carries the bytes that they announce.
        login_umask: The umask that start-up files set; the agent's own is 077.
    """

    def __init__(self, root: str, agent_path: str, output: int, input_: BinaryIO, login_umask: int) -> None:
        self.root = root
        self.agent_path = agent_path
        self.input = input_
        self.login_umask = login_umask
        self.children = Children()
        self._output = output
        self._lock = threading.Lock()

    def send(self, message: Dict[str, Any]) -> None:
        """Write one line to home. A lost connection raises no error here: the reader of stdin notices it."""
        line = json.dumps(message, ensure_ascii=True, separators=(",", ":"))
        self.write(line.encode("ascii") + b"\n")

    def write(self, content: bytes) -> None:
        view = memoryview(content)
        with self._lock, contextlib.suppress(BrokenPipeError):
            while view:
                view = view[os.write(self._output, view) :]

    def send_with(self, message: Dict[str, Any], pour: Callable[[int], None]) -> None:
        """Write a line and, before any other line, the bytes that `pour` writes to the output."""
        line = json.dumps(message, ensure_ascii=True, separators=(",", ":")).encode("ascii") + b"\n"
        view = memoryview(line)
        with self._lock, contextlib.suppress(BrokenPipeError):
            while view:
                view = view[os.write(self._output, view) :]
            pour(self._output)


class Call:
    """One request that is being answered."""

    def __init__(self, session: Session, request_id: Any) -> None:
        self.session = session
        self.root = session.root
        self._request_id = request_id

    def progress(self, message: str, fraction: Optional[float] = None) -> None:
        params = {"id": self._request_id, "message": message, "fraction": fraction}
        self.session.send({"jsonrpc": "2.0", "method": "progress", "params": params})

    def answer(self, result: Dict[str, Any], pour: Callable[[int], None]) -> None:
        """Send the answer now, followed by the bytes that `pour` writes. The method must then return None."""
        self.session.send_with({"jsonrpc": "2.0", "id": self._request_id, "result": result}, pour)


Method = Callable[[Call, Dict[str, Any]], Optional[Dict[str, Any]]]
