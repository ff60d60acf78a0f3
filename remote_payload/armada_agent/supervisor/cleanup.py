"""Clean up after a killed supervisor: end the run's processes and record its end."""

import functools
import os
import signal
import time
from typing import Any, Callable, Dict, List, Optional

from armada_agent.errors import is_disk_full
from armada_agent.foundation import files, process_identity
from armada_agent.host import processes
from armada_agent.outbox.checkpoint_watch import CheckpointWatch, open_watch
from armada_agent.outbox.finishing import Outbox
from armada_agent.outbox.settling import settling, silent_since
from armada_agent.paths import RunPaths, newest
from armada_agent.records import job_status
from armada_agent.records.ending import ENDED, Ending, exit_of
from armada_agent.records.journal import Journal
from armada_agent.records.place import await_seen, is_readable
from armada_agent.records.stop_request import await_stop_request, concerns, ending_of, grace, read_stop_request
from armada_agent.supervisor import enclosure
from armada_agent.supervisor.supervise import LEFTOVER_GRACE_S

_TICK_S = 0.2
_TRIES = 3


def clear(root: str, run_id: str, submission: int) -> int:
    """End the processes that a dead supervisor left, and write the end that it could not write."""
    if os.fork():
        os._exit(0)
    os.umask(0o077)
    paths = RunPaths(root, run_id)
    if files.lock(paths.supervisor_lock, timeout_s=0.2) is None:  # an observer holds it only for a moment
        return 0  # a supervisor is alive, or another process like this one is at work
    complete(paths, submission)
    return 0


def complete(paths: RunPaths, submission: int) -> None:
    """Do so in this process. If the supervisor recorded that its job had ended well, that is the end, and all that it saved is complete.

    Args:
        paths: The run's files.
        submission: The submission whose supervisor is dead. If a later one was claimed, all belongs to that: nothing is done.
    """
    if _is_followed(paths, submission):
        return
    spec = _read(paths, paths.spec)  # processes must be ended even if the plan is unreadable
    attempt = newest(await_seen(paths, paths.attempts)) or 0
    begun = _read(paths, paths.attempt(attempt, "run.json"))
    leader = begun.get("process")
    record = begun if "submission" in begun else _read(paths, paths.attempt(attempt, "exit.json"))
    if isinstance(record.get("submission"), int) and record["submission"] < submission:
        attempt = 0  # this submission began none: the end of an earlier one is not its end
    journal = _resume(paths, submission, attempt)

    silent_at = silent_since(paths)
    alive_at = [silent_at or 0.0]

    def find() -> List[processes.Process]:
        found = processes.members(paths, leader)
        if found:
            alive_at.append(files.time_beside(paths.checkpoint_watch_lock))
        return found

    def report_stuck(pids: List[int]) -> None:
        journal.record("finding", message="SIGKILL does not end these processes: %s" % ", ".join(map(str, pids[:20])))

    alive_at.append(_ask(paths, leader, find, grace(_stop_request_now(paths), spec)))
    processes.sweep(find, LEFTOVER_GRACE_S, report_stuck)
    failure = enclosure.clear(paths)
    if failure is not None:
        journal.record("finding", message=failure)
    with settling(paths):
        watch = _open_watch(paths, spec, journal)
        if watch is not None and silent_at is not None:
            status = _known_status(paths, submission, attempt)
            ended_at = None if status is None else job_status.noted_at(paths, attempt)
            watch.note_end(max(alive_at) if ended_at is None else ended_at)
            is_trusted = status == 0 and _is_same_boot(paths, submission, begun)
            _try(paths, journal, "saved", functools.partial(watch.finish, is_trusted))
        settings = spec.get("outbox")
        outbox = Outbox(paths, settings if isinstance(settings, dict) else {}, journal, watch)
        _try(paths, journal, "announced", functools.partial(outbox.look, None))
    if journal.state["state"] not in ENDED and not _is_followed(paths, submission):
        ending = _recorded_ending(paths, submission, attempt)
        journal.conclude(ending, job_status.ended_at(paths, attempt) if ending.state == "succeeded" else None)


def _is_followed(paths: RunPaths, submission: int) -> bool:
    """Return whether a later submission was claimed."""
    return (await_seen(paths, paths.newest_submission) or 0) > submission


def _open_watch(paths: RunPaths, spec: Dict[str, Any], journal: Journal) -> Optional[CheckpointWatch]:
    try:
        return open_watch(paths, spec, journal)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        message = "the checkpoints that the job saved last cannot be looked for: the plan's `watch` is damaged: %r"
        journal.record("finding", message=message % error)
        return None


def _try(paths: RunPaths, journal: Journal, what: str, take: Callable[[], None]) -> None:
    """Take what a job saved or announced last. A full disk, or one that is away, ends this process: the next one tries again.

    Raises:
        OSError: As said.
    """
    for tries_left in reversed(range(_TRIES)):
        try:
            take()
            return
        except Exception as error:  # a damaged plan does not keep a run from its end
            if (isinstance(error, OSError) and is_disk_full(error)) or not is_readable(paths):
                raise
            if not tries_left:
                message = "the checkpoints that the job %s last cannot be taken: %s"
                journal.record("finding", message=message % (what, error))


def has_ended_well(paths: RunPaths, submission: int, attempt: int) -> bool:
    """Return whether it is recorded that an attempt's job exited with 0 by itself."""
    return await_seen(paths, lambda: job_status.read_status(paths, attempt, submission)) == 0


def _known_status(paths: RunPaths, submission: int, attempt: int) -> Optional[int]:
    try:
        return await_seen(paths, lambda: job_status.read_status(paths, attempt, submission))
    except files.UnseenError:
        return None


def _is_same_boot(paths: RunPaths, submission: int, begun: Dict[str, Any]) -> bool:
    """Return whether the attempt's supervisor is recorded to have run since this machine was started.

    Otherwise the power may have been cut after the job's end was recorded: what it wrote just before may never have reached
    the disk, although the record did.
    """
    supervisor: Any = begun.get("supervisor") or _read(paths, paths.submission(submission, "job.json")).get(
        "supervisor"
    )
    boot = process_identity.current_host()["boot_id"]
    return bool(boot) and process_identity.is_identity(supervisor) and bool(supervisor["boot_id"] == boot)


def _stop_request_now(paths: RunPaths) -> Dict[str, Any]:
    try:
        return read_stop_request(paths) or {}
    except files.UnseenError:
        return {}  # the plan has a grace period, too


def _resume(paths: RunPaths, submission: int, attempt: int) -> Journal:
    journal = Journal(paths, submission)
    journal.take_up(attempt)
    return journal


def _recorded_ending(paths: RunPaths, submission: int, attempt: int) -> Ending:
    """Return the end that the supervisor wrote before it died; otherwise, an end as stopped now."""
    written = exit_of(_read(paths, paths.attempt(attempt, "exit.json")), submission) or {}
    if written.get("state") not in ENDED:
        return _ending_by_status(paths, submission, attempt)
    ending = Ending(written["state"], written.get("reason"), written.get("message"))
    ending.exit_code, ending.signal = written.get("exit_code"), written.get("signal")
    return ending


def _ending_by_status(paths: RunPaths, submission: int, attempt: int) -> Ending:
    """Return the end of a job of which at most the status was recorded.

    Raises:
        files.UnseenError: That cannot be read, and nobody has stopped the run: how it ended is not known.
    """
    how = "stopped after its supervisor had died"
    unseen = None
    try:
        if has_ended_well(paths, submission, attempt):
            return Ending("succeeded").with_status(0)
    except files.UnseenError as error:
        unseen = error
    stop_request = await_stop_request(paths)
    is_stopped = stop_request is not None and concerns(stop_request, submission)
    if unseen is not None and not is_stopped:
        raise unseen
    if unseen is not None:
        how = "%s; how its job had ended cannot be read: %s" % (how, unseen)
    ending = ending_of(stop_request or {} if is_stopped else {}, True)
    ending.message = "; ".join(filter(None, (ending.message, how)))
    return ending


def _ask(
    paths: RunPaths, leader: Optional[Dict[str, Any]], find: Callable[[], List[processes.Process]], grace_s: float
) -> float:
    """Send SIGTERM to the job's first process and wait for the grace period that a living supervisor would have given it.

    Returns:
        When that process was last seen alive, unix time by the file system's clock; 0 if it was not.
    """
    alive_at = 0.0
    if leader is None or process_identity.judge(leader) != "alive":
        return alive_at
    for process in find():
        if process.pid == leader["pid"]:
            processes.send(process, signal.SIGTERM)
    deadline = time.monotonic() + grace_s
    while process_identity.judge(leader) == "alive" and time.monotonic() < deadline:
        alive_at = files.time_beside(paths.checkpoint_watch_lock)
        time.sleep(_TICK_S)
    return alive_at


def _read(paths: RunPaths, path: str) -> Dict[str, Any]:
    try:
        return await_seen(paths, lambda: files.read_json(path)) or {}
    except files.UnreadableError:
        return {}  # cut short when the supervisor was killed
