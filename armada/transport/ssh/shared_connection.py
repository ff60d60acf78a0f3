"""Keep one OpenSSH connection per host open in the background, for all other connections (ControlMaster).

Any armada process opens it when it is missing, unless only the user may. It outlives the process that opened it.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from armada.errors import AuthenticationFailed, HostUnreachable, LinkLost, LoginNeeded
from armada.foundation.locks import FileLock
from armada.foundation.sanitize import sanitize_line
from armada.transport.deadline import Deadline, growing_pauses
from armada.transport.interface import RUNS_GO_ON
from armada.transport.ssh.config_file import shared_socket, write_ssh_config
from armada.transport.ssh.host_keys import pinned_keys

if TYPE_CHECKING:
    from armada.paths import HomePaths
    from armada.transport.ssh.resolve import HostSpec

_CONTROL_TIMEOUT_S = 10.0
_LOCK_POLL_S = 0.05
_PID = re.compile(r"\(pid=(\d+)\)")
_SILENCE = re.compile(r"Timeout, server \S+ not responding")


class SharedConnection:
    """The shared connection to one host, for its current address and pinned keys.

    Args:
        spec: How to reach it.
        home: Its socket and its log lie in a private folder of this home.

    Raises:
        ConfigError: The host's SSH configuration cannot be written.
    """

    def __init__(self, spec: HostSpec, home: HomePaths) -> None:
        self._spec = spec
        self._home = home
        self._config = write_ssh_config(spec, home)
        self._socket = shared_socket(spec, home)
        self._log = home.ssh / f"{spec.name}.log"

    def pid(self) -> int | None:
        """The id of the process that holds the connection; None if it is not open."""
        if not self._socket.exists():
            return None
        found = _PID.search(_speak("check", self._socket) or "")
        return int(found[1]) if found else None

    def ensure(self, deadline_s: float) -> None:
        """Open the connection if needed, without asking the user anything. If only the user may open it, it must be open.

        Raises:
            LoginNeeded: It is not; the error has the command that opens it.
            HostUnreachable: Or a subclass, as for Fabric's connections.
        """
        deadline = Deadline(deadline_s)
        if self.pid() is not None:
            return
        if self._spec.reuse_only:
            command = f"armada hosts connect {self._spec.name}"
            # In the sentence too: a daemon's log and the dashboard show no hints.
            said = f"no connection to it is open, and only `{command}` opens one (`reuse_only`)"
            raise LoginNeeded(said, hint=command, host=self._spec.name)
        with self._turn(deadline):
            if self.pid() is None:  # no other process opened it while we waited for the lock
                self._open(deadline)

    def ask_and_open(self) -> None:
        """Open the connection for a user at a terminal, who is asked for passphrases and codes.

        Raises:
            HostUnreachable: Or a subclass.
        """
        with self._turn(Deadline(0)):
            if self.pid() is not None:
                return
            end_connections(self._spec.name, self._home)  # also those to a former address or with formerly pinned keys
            self._log.unlink(missing_ok=True)
            config = write_ssh_config(self._spec, self._home, asking=True)
            status = _ask_at_terminal(self._command(config), config.parent)
            if status == -signal.SIGINT:
                raise KeyboardInterrupt
            if self.pid() is None:
                said = self._logged() or ("" if status else "it closed the connection right after the login")
                self._explain(said, in_time=True, retry=False)

    def lost(self) -> LinkLost:
        """Return the error for a connection that was lost."""
        said = self._logged()
        lines = [line for line in said.splitlines() if line.strip()]
        reason = "no answer for 15 s" if _SILENCE.search(said) else sanitize_line(lines[-1]).strip() if lines else ""
        reason = reason or "it was closed"
        return LinkLost(f"the connection was lost: {reason}", hint=RUNS_GO_ON, host=self._spec.name)

    def _open(self, deadline: Deadline) -> None:
        for pause_s in growing_pauses():
            self._socket.unlink(missing_ok=True)  # left behind by a process that was killed
            said, in_time = self._try(deadline)
            if self.pid() is not None:
                return
            self._explain(said, in_time=in_time, retry=deadline.has_room_for(pause_s))
            time.sleep(pause_s)

    def _command(self, config: Path) -> list[str]:
        return ["ssh", "-F", config.name, "-E", self._log.name, "-N", "-T", f"{self._spec.alias}+master"]

    def _try(self, deadline: Deadline) -> tuple[str, bool]:
        """Start ssh and wait until it is in the background, has failed, or time is up. Return (its messages, whether in time)."""
        self._log.unlink(missing_ok=True)
        with os.fdopen(os.open(self._log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab") as log:
            try:
                process = subprocess.Popen(
                    self._command(self._config),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=log,  # earlier messages concern its own options
                    cwd=self._config.parent,
                    start_new_session=True,  # it must survive us, and Ctrl-C
                )
            except OSError as error:
                raise HostUnreachable(f"cannot start ssh: {error.strerror}", host=self._spec.name) from error
        try:
            process.wait(deadline.remaining_s(deadline.seconds))
        except subprocess.TimeoutExpired:
            return self._logged(), False
        finally:
            if process.poll() is None:  # also on Ctrl-C; the ssh processes of its hops end with it
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        return self._logged(), True

    def _explain(self, said: str, *, in_time: bool, retry: bool) -> None:
        """Return if a retry may help; otherwise raise the reason why the connection did not open."""
        from armada.transport.ssh.messages import read_refusal
        from armada.transport.ssh.refusals import explain

        refusal = read_refusal(said, self._spec, self._home, pinned_keys(self._home), in_time=in_time)
        if refusal.is_busy and retry:
            return
        error = explain(refusal, host=self._spec.name)
        if isinstance(error, AuthenticationFailed) and refusal.keys is not None and refusal.keys.locked:
            error.hint = f"armada hosts connect {self._spec.name} (asks for the passphrase once), or {error.hint}"
        raise error

    def _logged(self) -> str:
        try:
            return self._log.read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return ""

    @contextlib.contextmanager
    def _turn(self, deadline: Deadline) -> Iterator[None]:
        """Let only one process or thread at a time open the connection, so that only one exists."""
        path = self._home.lock(f"connection-{self._spec.name}")
        with FileLock(path) as lock:
            try:
                lock.acquire(timeout_s=deadline.left_s, poll_s=_LOCK_POLL_S)
            except TimeoutError:
                said = "another process is connecting to it right now"
                raise HostUnreachable(said, host=self._spec.name) from None
            yield


def end_connections(name: str, home: HomePaths) -> int:
    """End every shared connection to the host `name`, whatever its address and keys; return how many were open."""
    ended = 0
    for socket in home.ssh.glob(f"{name}+*.ctl"):
        ended += _speak("exit", socket) is not None
        socket.unlink(missing_ok=True)
    return ended


def _speak(verb: str, socket: Path) -> str | None:
    """Send a command to the process behind a socket; return its answer, or None without one."""
    # From the socket's folder: its whole path may be longer than a socket's address can be. The host's name is not
    # looked up.
    command = ["ssh", "-F", "/dev/null", "-o", f"ControlPath={socket.name}", "-O", verb, "armada"]
    try:
        done = subprocess.run(
            command, cwd=socket.parent, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
            timeout=_CONTROL_TIMEOUT_S, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout + done.stderr if done.returncode == 0 else None


def _ask_at_terminal(command: list[str], folder: Path) -> int:
    """Run a program that asks questions at the terminal, and return its status. What it leaves behind gets no signals from there.

    It stays in our session, which has the terminal, but in a process group of its own, which has the foreground
    meanwhile. The ssh of a hop stays in that group; in ours, a Ctrl-C or closing the terminal would end it.
    """
    process = subprocess.Popen(command, cwd=folder, process_group=0)
    try:
        terminal = os.open("/dev/tty", os.O_RDWR | os.O_CLOEXEC)
    except OSError:  # there is no terminal to ask at
        return process.wait()
    ours = os.getpgrp()
    former = signal.signal(signal.SIGTTOU, signal.SIG_IGN)  # otherwise taking the foreground back would stop us
    try:
        if os.tcgetpgrp(terminal) == ours:
            os.tcsetpgrp(terminal, process.pid)
        return process.wait()
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        if os.tcgetpgrp(terminal) == process.pid:
            os.tcsetpgrp(terminal, ours)
        signal.signal(signal.SIGTTOU, former)
        os.close(terminal)
