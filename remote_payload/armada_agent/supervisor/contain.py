"""The first process of a job in a container. It starts the container, passes SIGTERM on and ends with its exit code.

With docker, the processes in a container are the daemon's children. The client that started them can be killed, or the
daemon restarted, while they run. So the tool's record of the container, and not the client's end, is the job's end.
"""

import os
import signal
import subprocess
import sys
import time
from typing import Any, Dict, List, Optional

from armada_agent.foundation import files
from armada_agent.host import containers
from armada_agent.host.processes import RUN_MARKER
from armada_agent.paths import RunPaths

_TICK_S = 0.1
_LOOK_AGAIN_S = 0.5
_AGAIN_S = 2.0
_SEEN_WITHIN_S = 5.0
_PATIENCE_S = 600.0
_NOT_STARTED = (containers.REFUSED, 126, 127)
"""Exit codes of a tool whose container never ran: its own error, or its runtime's about the first program."""
_CREATED = ("created", "configured", "initialized")


def contain(root: str, run_id: str, attempt: int, program: str, words: List[str]) -> int:
    """Run a job's container to its end and remove it.

    Args:
        root: The host's root folder.
        run_id: The run.
        attempt: The number of the attempt.
        program: The container tool.
        words: Its arguments.

    Returns:
        The exit code of the container.
    """
    return _Container(RunPaths(root, run_id), attempt, program).run(words)


class _Container:
    def __init__(self, paths: RunPaths, attempt: int, program: str) -> None:
        self._paths = paths
        self._attempt = attempt
        self._program = program
        self._name = containers.name_of(paths)
        self._is_asked = False
        self._is_told = False
        self._is_seen = False
        self._hidden_since: Optional[float] = None
        self._is_hidden = False
        self._look_at = 0.0

    def run(self, words: List[str]) -> int:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._note)
        client = subprocess.Popen([self._program] + words, stdin=subprocess.DEVNULL)
        writes_itself = containers.passes_through(words)
        while True:
            self._follow(client)
            if self._is_hidden:
                code = containers.REFUSED
                break
            ended = self._ending(client.returncode)
            if ended is not None:
                code = ended
                break
            time.sleep(_AGAIN_S)
            if writes_itself:
                # Its output needs nobody, and cannot be attached to.
                words = [self._program, "wait", self._name]
                client = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
            else:
                words = [self._program, "attach", "--no-stdin", "--sig-proxy=false", self._name]
                client = subprocess.Popen(words, stdin=subprocess.DEVNULL)
        files.remove(self._paths.container_variables)
        if containers.remove(self._program, self._name) is None:
            files.remove(self._paths.container)  # nothing is left to clear
        return code

    def _note(self, _number: int, _frame: Any) -> None:
        self._is_asked = True

    def _follow(self, client: "subprocess.Popen[bytes]") -> None:
        """Wait for the client's end. Meanwhile pass SIGTERM on, and check that the processes can be seen."""
        while client.poll() is None:
            if self._is_asked and not self._is_told:
                self._is_told = self._tell()
            if not self._is_seen and time.monotonic() >= self._look_at and not self._look():
                client.kill()
                client.wait()
                return
            time.sleep(_TICK_S)

    def _tell(self) -> bool:
        """Send SIGTERM to the container's main process. Return False if it has not started yet."""
        try:
            code, _, _ = containers.call(self._program, ["kill", "--signal", "TERM", self._name])
        except containers.NoAnswerError:
            return False
        return code == 0

    def _look(self) -> bool:
        """Return False if the container's processes are hidden from this machine's /proc: nothing could end them."""
        self._look_at = time.monotonic() + _LOOK_AGAIN_S
        state = self._state()
        if not containers.is_running(state) or state is None:
            return True
        if _carries(state.get("Pid"), self._paths.run_id):
            self._is_seen = True
            return True
        if self._hidden_since is None:
            self._hidden_since = time.monotonic()
        if time.monotonic() - self._hidden_since < _SEEN_WITHIN_S:
            return True
        self._is_hidden = True
        self._explain("the container tool of this host runs containers where armada cannot see their processes")
        return False

    def _ending(self, status: int) -> Optional[int]:
        """Return the container's exit code after its client has ended; None while the container runs on."""
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            try:
                state = containers.find_state(self._program, self._name)
                break
            except containers.NoAnswerError as error:
                if time.monotonic() > deadline:
                    self._explain("how the container ended is not known: %s" % error)
                    return containers.REFUSED
                time.sleep(_AGAIN_S)
        if containers.is_running(state):
            sys.stderr.write("armada: the container's client ended with exit code %d; the container runs on\n" % status)
            sys.stderr.flush()
            return None
        code = state.get("ExitCode") if state is not None and state.get("Status") not in _CREATED else None
        said = containers.last_line(files.read_tail(self._paths.output, 4096))
        has_started = self._is_seen or code is not None
        if containers.lacks_program(status if code is None else code, said, has_started):
            self._explain("the image has no such program: %s" % said, "command_not_found")
            return 127
        if code is not None:
            return code if isinstance(code, int) and 0 <= code < 256 else containers.REFUSED
        if status in _NOT_STARTED and not self._is_seen:
            self._explain("the container did not start: %s" % said, "container_not_started")
        return status if 0 < status < 256 else containers.REFUSED

    def _state(self) -> Optional[Dict[str, Any]]:
        try:
            return containers.find_state(self._program, self._name)
        except containers.NoAnswerError:
            return None

    def _explain(self, message: str, reason: str = "env_error") -> None:
        """Record why the job failed, unless the job has done that itself."""
        place = self._paths.attempt(self._attempt, "failure.json")
        if not os.path.lexists(place):
            told: Dict[str, Any] = {"reason": reason, "message": message, "rank": None, "lines": []}
            files.write_json(place, told)


def _carries(pid: Any, run_id: str) -> bool:
    """Return whether a process of this machine has a run's marker in its environment."""
    if not isinstance(pid, int) or pid <= 0:
        return False
    try:
        with open("/proc/%d/environ" % pid, "rb") as stream:
            return ("%s=%s" % (RUN_MARKER, run_id)).encode() in stream.read(4 * 1024 * 1024).split(b"\0")
    except OSError:
        return False
