"""Start the process that finishes a run's checkpoints after its supervisor died (`outbox/orphans.py`)."""

import os
import time
from typing import List, NamedTuple

from armada_agent.foundation import files
from armada_agent.foundation.session import Call
from armada_agent.host import detached
from armada_agent.outbox import orphans
from armada_agent.outbox.watch_record import count_failed
from armada_agent.paths import RunPaths
from armada_agent.runs.observation import Evidence

_AGAIN_S = 600.0


class Unfinished(NamedTuple):
    """What a dead supervisor left.

    Attributes:
        finishing: Checkpoints to be hashed.
        unannounced: Those of them that are not announced yet.
        untaken: Others that could not be read or copied. They are tried again, and nobody waits for them.
    """

    finishing: int
    unannounced: int
    untaken: int


def attend(call: Call, paths: RunPaths) -> Unfinished:
    """Start the process that finishes a run's checkpoints if its supervisor no longer can.

    Returns:
        The number of these checkpoints; 0 if a supervisor lives, or if that is unknown.
    """
    found = orphans.left_behind(paths)
    failed = count_failed(paths)
    left = _left(paths)  # in this order, one that is taken meanwhile is counted twice instead of never
    if not found and not left and not failed:
        return Unfinished(0, 0, 0)
    evidence = Evidence(paths)
    is_dead = evidence.supervisor == "dead"
    if not is_dead and not evidence.is_gone:
        return Unfinished(0, 0, 0)
    # A job that is gone by a guess may live elsewhere, and its supervisor with it.
    is_over = is_dead and not evidence.processes()
    unannounced, untaken = (len(found), failed) if is_over else (0, 0)
    if not unannounced and not untaken and not left:
        return Unfinished(0, 0, 0)
    is_due = bool(left) or (is_over and (bool(found) or _is_long_ago(paths)))
    if is_due and not any(map(files.is_locked, (paths.outbox_lock, paths.checkpoint_watch_lock))):
        detached.start("finish", call.session.agent_path, paths, evidence.submission_number or 0)
    return Unfinished(len(left) + unannounced, unannounced, untaken)


def _is_long_ago(paths: RunPaths) -> bool:
    """Return whether it is a while since anybody tried to take what could not be taken."""
    try:
        return abs(time.time() - os.stat(paths.checkpoint_watch).st_mtime) >= _AGAIN_S
    except OSError:
        return False


def _left(paths: RunPaths) -> List[str]:
    announced = {os.path.basename(folder) for folder in paths.announced()}
    if not announced:
        return []
    try:
        given_up = (files.read_json(paths.given_up) or {}).get("folders")
    except files.UnreadableError:
        given_up = None
    listed = given_up if isinstance(given_up, list) else []
    return sorted(announced - {name for name in listed if isinstance(name, str)})
