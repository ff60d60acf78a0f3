"""Find a run's processes by the marker in their environment, and kill all of them."""

import contextlib
import os
import signal
import time
from typing import Any, Callable, Dict, List, Optional, Set

from armada_agent.foundation import process_identity
from armada_agent.paths import RunPaths

RUN_MARKER = "ARMADA_RUN_ID"
ROOT_MARKER = "ARMADA_ROOT"
GPU_MARKER = "ARMADA_GPUS"
SUPERVISOR_MARKER = "ARMADA_SUPERVISOR"
ATTEMPT_MARKER = "ARMADA_ATTEMPT"
SUBMISSION_MARKER = "ARMADA_SUBMISSION"
_ENVIRON_LIMIT = 4 * 1024 * 1024
_STUCK_AFTER_S = 30.0


class Process:
    """A living process and the variables that it started with. `attempt` is 0, and so is `submission`, where none is named."""

    __slots__ = ("attempt", "gpus", "root", "run_id", "stat", "submission", "supervises")

    def __init__(self, stat: process_identity.Stat, environment: Dict[str, str]) -> None:
        self.stat = stat
        self.run_id = environment.get(RUN_MARKER)
        self.root = environment.get(ROOT_MARKER)
        self.supervises = environment.get(SUPERVISOR_MARKER)
        self.attempt = _number(environment.get(ATTEMPT_MARKER, ""))
        self.submission = _number(environment.get(SUBMISSION_MARKER, ""))
        self.gpus = [uuid for uuid in environment.get(GPU_MARKER, "").split(",") if uuid]

    @property
    def pid(self) -> int:
        return self.stat.pid

    def name(self) -> str:
        """The process's name as `ps` shows it; `?` if it has ended. Its arguments are not read: they may contain secrets."""
        try:
            with open("/proc/%d/comm" % self.pid, "rb") as stream:
                return stream.read(64).decode("utf-8", "replace").strip()
        except OSError:
            return "?"


def _number(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) < 10 else 0


def scan() -> List[Process]:
    """List every living process except this one. Environments of other users' processes stay unknown."""
    found = []
    for pid in process_identity.all_pids():
        stat = process_identity.read_stat(pid)
        if stat is None or not stat.is_alive or pid == os.getpid():
            continue
        found.append(Process(stat, _read_environment(pid)))
    return found


def parse_environment(content: bytes) -> Dict[str, str]:
    """Return armada's own variables in the content of /proc/<pid>/environ."""
    pairs = (item.partition(b"=") for item in content.split(b"\0") if item.startswith(b"ARMADA_"))
    return {name.decode("utf-8", "replace"): value.decode("utf-8", "replace") for name, _, value in pairs}


def members(
    paths: RunPaths,
    leader: Optional[Dict[str, Any]] = None,
    table: Optional[List[Process]] = None,
    up_to: Optional[int] = None,
    adopter: Optional[int] = None,
) -> List[Process]:
    """Find the processes of a run.

    A process belongs to the run if it carries the run's marker, is in its job's session (a program that rewrites its
    title overwrites the marker), descends from such a process, or was inherited by the run's guardian when its parent
    ended.

    Args:
        paths: The run's files. A run of the same name under another root is a different run.
        leader: Identity of the job's first process, if known.
        table: A scan to search instead of a new one.
        adopter: The guardian's pid. Only the supervisor passes it; the supervisor is the guardian's only other child.
        up_to: Return the processes of this attempt and earlier ones; a later one may run at the same time. None: all
            attempts.
    """
    table = scan() if table is None else table
    session = _living_session(leader, table)
    root = os.path.realpath(paths.root)
    ours = {process.pid for process in table if process.stat.session == session}
    ours |= {
        process.pid
        for process in table
        if process.run_id == paths.run_id
        and (process.root is None or os.path.realpath(process.root) == root)
        and (up_to is None or process.attempt <= up_to)
    }
    if adopter is not None:
        ours |= {process.pid for process in table if process.stat.parent == adopter}
    return _with_descendants(ours, table)


def _living_session(leader: Optional[Dict[str, Any]], table: List[Process]) -> int:
    # In a container, session 0 holds all processes that were started from outside.
    if leader is None or process_identity.compare(leader) != "here" or leader["pid"] <= 0:
        return -1
    # The kernel does not reuse a pid while a session has that number: only a leader with another start time is foreign.
    usurped = any(p.pid == leader["pid"] and p.stat.start_time != leader["start_time"] for p in table)
    return -1 if usurped else int(leader["pid"])


def _with_descendants(ours: Set[int], table: List[Process]) -> List[Process]:
    grown = True
    while grown:
        children = {process.pid for process in table if process.stat.parent in ours} - ours
        ours |= children
        grown = bool(children)
    return [process for process in table if process.pid in ours]


def send(process: Process, number: int) -> None:
    """Send a signal to a process, unless its pid now belongs to another process."""
    with contextlib.suppress(ProcessLookupError, PermissionError):  # it ended just now, or became another user's
        descriptor = _hold(process.pid)
        try:
            stat = process_identity.read_stat(process.pid)
            if stat is None or stat.start_time != process.stat.start_time:
                return
            if descriptor is None:
                os.kill(process.pid, number)
            else:
                _signal_held(descriptor, number)
        finally:
            if descriptor is not None:
                os.close(descriptor)


def _hold(pid: int) -> Optional[int]:
    """Open a pidfd, so that a signal reaches this process or none. Return None before Python 3.9 and Linux 5.3."""
    open_pidfd = getattr(os, "pidfd_open", None)
    if open_pidfd is None or not hasattr(signal, "pidfd_send_signal"):
        return None
    try:
        return int(open_pidfd(pid))
    except ProcessLookupError:
        raise
    except OSError:
        return None  # a sandbox without this system call


def _signal_held(descriptor: int, number: int) -> None:
    getattr(signal, "pidfd_send_signal")(descriptor, number)  # noqa: B009  # Python 3.6's type stubs lack it


def sweep(
    find: Callable[[], List[Process]],
    grace_s: float,
    on_stuck: Callable[[List[int]], None],
    pause: Callable[[float], None] = time.sleep,
) -> None:
    """End every process that `find` returns: SIGTERM, a grace period, then SIGKILL until none is left.

    Args:
        find: Finds the processes. It is called repeatedly, because new children may appear meanwhile.
        grace_s: Seconds between SIGTERM and SIGKILL.
        on_stuck: Called once with the pids that SIGKILL does not end (a driver that hangs).
        pause: Sleeps for some seconds.
    """
    asked: Set[int] = set()
    begun = time.monotonic()
    told = False
    while True:
        left = find()
        if not left:
            pause(0.05)  # a process in the middle of exec shows no environment: scan twice
            left = find()
            if not left:
                return
        waited_s = time.monotonic() - begun
        for process in left:
            if waited_s >= grace_s:
                send(process, signal.SIGKILL)
            elif process.pid not in asked:
                asked.add(process.pid)
                send(process, signal.SIGTERM)
        if waited_s > grace_s + _STUCK_AFTER_S and not told:
            told = True
            on_stuck([process.pid for process in left])
        pause(1.0 if told else 0.1)


def _read_environment(pid: int) -> Dict[str, str]:
    try:
        with open("/proc/%d/environ" % pid, "rb") as stream:
            return parse_environment(stream.read(_ENVIRON_LIMIT))
    except OSError:
        return {}
