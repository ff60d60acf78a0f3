"""The supervisor's parent process. If the supervisor is killed, the guardian takes over the job and thus gets its exit code.

Until then, it only waits. It is a "child subreaper" (prctl(2)), so the kernel makes it the parent of a job whose
supervisor died. Then it becomes the run's supervisor. If the kernel or this Python does not support that, the
supervisor works alone, and a job that outlives it ends without an exit code. A batch system needs no guardian: it ends
a job together with its supervisor.
"""

import os
import signal
import time
from typing import Any, Callable, Dict, List, Optional

from armada_agent.foundation import files, process_identity
from armada_agent.foundation.log import say
from armada_agent.paths import RunPaths, newest
from armada_agent.records import job_status
from armada_agent.records.ending import ENDED, exit_of
from armada_agent.records.place import await_seen, is_seen_gone

_PR_SET_CHILD_SUBREAPER = 36
_NOT_OURS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_EXEC_S = 5.0  # between fork and exec, a job has neither its own session nor its own name


class Adopted:
    """A job that this process did not start but whose parent it is. It has the methods of Popen that a supervisor uses.

    Args:
        pid: The job's first process.
        status: waitpid's status of the process; None while it runs.
    """

    def __init__(self, pid: int, status: Optional[int] = None) -> None:
        self.pid = pid
        self._status = status

    @classmethod
    def ended(cls, pid: int, code: int) -> "Adopted":
        """Return a job that its former supervisor reaped, with the exit code that it recorded, negative for a signal."""
        return cls(pid, code << 8 if code >= 0 else -code)

    def poll(self) -> Optional[int]:
        """Return the exit code, negative for a signal; None while it runs."""
        return self._wait(os.WNOHANG)

    def wait(self) -> int:
        """Wait for the process's end and return its exit code."""
        found = self._wait(0)
        return 0 if found is None else found  # without WNOHANG, waitpid returns only after the process's end

    def terminate(self) -> None:
        """Send SIGTERM."""
        if self.poll() is None:
            os.kill(self.pid, signal.SIGTERM)

    def _wait(self, options: int) -> Optional[int]:
        if self._status is None:
            pid, status = os.waitpid(self.pid, options)
            self._status = status if pid else None
        return None if self._status is None else exit_code(self._status)


class Left:
    """What a killed supervisor left.

    Attributes:
        attempt: The number of the attempt.
        record: The attempt's run.json, or as much as is known of it.
        job: The job, which is now this process's child.
        noted_at: When its supervisor recorded its end, unix time by the file system's clock; None if it did not.
    """

    def __init__(self, attempt: int, record: Dict[str, Any], job: Adopted, noted_at: Optional[float] = None) -> None:
        self.attempt = attempt
        self.record = record
        self.job = job
        self.noted_at = noted_at


def exit_code(status: int) -> int:
    """Convert a status of waitpid to an exit code of Popen."""
    return -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def can_guard() -> bool:
    """Make this process the parent of orphaned descendants. Return False if the system does not support that."""
    try:
        import ctypes  # missing in a Python built without libffi

        return bool(ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)
    except (ImportError, OSError, AttributeError) as error:
        say("cannot start the guardian: %s" % error)
        return False


def watch(supervisor: int, paths: RunPaths, submission: int, take_over: Callable[[Left], None]) -> int:
    """Wait for the supervisor's end. If it left a job, take the job over."""
    for number in _NOT_OURS:
        signal.signal(number, signal.SIG_IGN)  # the supervisor answers a signal to the whole group
    reaped = _reap(supervisor)
    if not _has_ended(paths, submission):
        left = _find_left(paths, submission, reaped)
        if left is not None:
            say("the supervisor was killed (exit code %d); this process takes over" % exit_code(reaped[supervisor]))
            successor = {"supervisor": process_identity.identify()}
            _write(paths, paths.submission(submission, "successor.json"), successor)
            take_over(left)
    return 0


def _write(paths: RunPaths, path: str, value: Dict[str, Any]) -> None:
    """Write a record, and wait as long as the disk is full or cannot be reached."""
    while not is_seen_gone(paths):
        try:
            files.write_json(path, value)
            return
        except OSError as error:
            say("cannot write, will keep trying: %s" % error)
            time.sleep(1.0)


def _reap(supervisor: int) -> Dict[int, int]:
    """Reap children until the supervisor ends. A child that ends after the supervisor may be the job."""
    reaped: Dict[int, int] = {}
    while supervisor not in reaped:
        pid, status = os.waitpid(-1, 0)
        stat = process_identity.read_stat(supervisor)
        if pid != supervisor and stat is not None and stat.is_alive:
            continue  # a daemonized process; the job itself is the supervisor's child
        reaped[pid] = status
    return reaped


def _has_ended(paths: RunPaths, submission: int) -> bool:
    state = _read(paths, paths.state)
    return state.get("state") in ENDED and state.get("submission") == submission


def _find_left(paths: RunPaths, submission: int, reaped: Dict[int, int]) -> Optional[Left]:
    """Find the job: the recorded one, or our child if the supervisor died before it wrote the record."""
    attempt = newest(await_seen(paths, paths.attempts)) or 0
    if not attempt or exit_of(_read(paths, paths.attempt(attempt, "exit.json")), submission):
        return None
    record = _read(paths, paths.attempt(attempt, "run.json"))
    if record:
        leader = record.get("process")
        if record.get("submission") != submission or leader is None or not process_identity.is_identity(leader):
            return None
        return _left(attempt, record, int(leader["pid"]), reaped) or _recorded(paths, attempt, record)
    job = _find_unrecorded()
    if job is None:
        return None
    record = {"attempt": attempt, "submission": submission, "gpus": [], "process": process_identity.identify(job)}
    return _left(attempt, record, job, reaped)


def _find_unrecorded() -> Optional[int]:
    deadline = time.monotonic() + _EXEC_S
    while True:
        children = _children()
        leaders = [child.pid for child in children if child.session == child.pid]
        if leaders or not children or time.monotonic() > deadline:
            return leaders[0] if leaders else None
        time.sleep(0.02)


def _children() -> List[process_identity.Stat]:
    """List our children, including those that have ended."""
    stats = map(process_identity.read_stat, process_identity.all_pids())
    return [stat for stat in stats if stat is not None and stat.parent == os.getpid()]


def _left(attempt: int, record: Dict[str, Any], pid: int, reaped: Dict[int, int]) -> Optional[Left]:
    if pid in reaped:
        return Left(attempt, record, Adopted(pid, reaped[pid]))
    stat = process_identity.read_stat(pid)
    is_ours = stat is not None and stat.parent == os.getpid()
    return Left(attempt, record, Adopted(pid)) if is_ours else None  # reaped by the supervisor


def _recorded(paths: RunPaths, attempt: int, record: Dict[str, Any]) -> Optional[Left]:
    """Return a job that the supervisor reaped and whose status it recorded; None if it was killed before that."""
    try:
        code = await_seen(paths, lambda: job_status.read_status(paths, attempt, record["submission"]))
    except files.UnseenError:
        return None
    if code is None:
        return None
    return Left(
        attempt, record, Adopted.ended(int(record["process"]["pid"]), code), job_status.noted_at(paths, attempt) or 0.0
    )


def _read(paths: RunPaths, path: str) -> Dict[str, Any]:
    try:
        return await_seen(paths, lambda: files.read_json(path)) or {}
    except files.UnreadableError:
        return {}  # cut short when the supervisor was killed
