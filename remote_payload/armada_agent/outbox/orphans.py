"""Finish checkpoints whose supervisor died, in a separate process at idle priority.

A job may outlive its supervisor (the kernel killed it for memory, or a user by mistake) and continue to announce
checkpoints. A job that died with it may have announced one just before. An announced checkpoint is complete, so it
comes home like any other. A script announces none: what it had saved, and its supervisor had not found yet, is taken
once the script is gone, by the same rule as before its next attempt.
"""

import os
import time
from typing import Any, Dict, List, Optional

from armada_agent.errors import is_disk_full
from armada_agent.foundation import files
from armada_agent.foundation.log import say
from armada_agent.host import processes
from armada_agent.outbox import checkpoint_watch
from armada_agent.outbox.checkpoint_watch import CheckpointWatch
from armada_agent.outbox.finishing import Outbox
from armada_agent.outbox.settling import silent_since
from armada_agent.outbox.watch_record import count_failed, is_damaged
from armada_agent.paths import RunPaths, newest
from armada_agent.records.journal import Journal

_ROUNDS = 3
_PAUSE_S = 1.0
_LOCK_S = 0.2  # whoever looks whether it is held holds it for a moment


class _Aside(Journal):
    """Writes only to supervisor.log: a run's records belong to its supervisor, and one may start at any time."""

    def record(self, kind: str, **fields: Any) -> None:
        say("%s: %s" % (kind, ", ".join("%s=%s" % pair for pair in sorted(fields.items()))))


def finish(root: str, run_id: str, submission: int) -> int:
    """Take and finish what a dead supervisor left, and record what fails, so that it is not hashed again and again."""
    if os.fork():
        os._exit(0)
    os.umask(0o077)
    os.nice(19)
    paths = RunPaths(root, run_id)
    try:
        lock = files.lock(paths.checkpoint_watch_lock, _LOCK_S)
    except OSError as error:
        say("checkpoints cannot be finished now: %s" % error)
        return 0
    if lock is None:
        return 0
    try:
        if paths.newest_submission() in (None, submission):
            _finish(paths, submission)
    finally:
        os.close(lock)
    return 0


def _finish(paths: RunPaths, submission: int) -> None:
    spec = _read(paths.spec)
    journal = _Aside(paths, submission)
    journal.state["attempt"] = newest(paths.attempts()) or 0
    watch = _open_watch(paths, spec, journal)
    if watch is not None:
        _take_left_behind(paths, watch)
    settings = spec.get("outbox")
    outbox = Outbox(paths, settings if isinstance(settings, dict) else {}, journal, watch)
    for _ in range(_ROUNDS):
        outbox.look()
        if not outbox.waiting():
            break
        time.sleep(_PAUSE_S)
    if outbox.given_up():
        names = [os.path.basename(folder) for folder in outbox.given_up()]
        files.write_json(paths.given_up, {"folders": names})


def left_behind(paths: RunPaths) -> List[str]:
    """List the checkpoints of a script that nobody took before its supervisor died, and that are whole.

    The caller has found its supervisor dead. Where its processes live, or its end was recorded, there are none: the one
    who recorded it took them first.
    """
    silent_at = _silent_at(paths)
    watch = None if silent_at is None else _open_watch(paths, _read(paths.spec), _Aside(paths, 0))
    return [] if watch is None or silent_at is None else watch.left_behind(silent_at)


def _take_left_behind(paths: RunPaths, watch: CheckpointWatch) -> None:
    silent_at = _silent_at(paths)
    if silent_at is None and not count_failed(paths):
        return
    run = _read(paths.attempt(newest(paths.attempts()) or 0, "run.json"))
    if processes.members(paths, run.get("process")):
        return
    try:
        watch.take_left_behind(silent_at)
    except OSError as error:
        say("the disk is full: %s" % error if is_disk_full(error) else "taking checkpoints: %s" % error)


def _silent_at(paths: RunPaths) -> Optional[float]:
    """Return when the newest attempt was last seen alive; None without one, or if its end is recorded."""
    attempt = newest(paths.attempts())
    if attempt is None or os.path.exists(paths.attempt(attempt, "exit.json")):
        return None
    return silent_since(paths)


def _open_watch(paths: RunPaths, spec: Dict[str, Any], journal: Journal) -> Optional[CheckpointWatch]:
    if is_damaged(paths):
        return None  # which files came with the code is unknown
    try:
        return checkpoint_watch.open_watch(paths, spec, journal)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        say("the spec says nothing valid of checkpoints: %s" % error)
        return None


def _read(path: str) -> Dict[str, Any]:
    try:
        return files.read_json(path) or {}
    except files.UnreadableError as error:
        say(str(error))
        return {}
