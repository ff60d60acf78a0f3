"""Start the process that finishes a run's announced checkpoints after its supervisor died (`outbox/orphans.py`)."""

import os
from typing import List

from armada_agent.foundation import files
from armada_agent.foundation.session import Call
from armada_agent.host import detached
from armada_agent.paths import RunPaths
from armada_agent.runs.observation import Evidence


def attend(call: Call, paths: RunPaths) -> int:
    """Start the process that finishes a run's announced checkpoints if its supervisor no longer can.

    Returns:
        The number of these checkpoints; 0 if a supervisor lives, or if that is unknown.
    """
    count = len(_left(paths))
    if not count:
        return 0
    evidence = Evidence(paths)
    if evidence.supervisor != "dead" and not evidence.is_gone:
        return 0
    if not files.is_locked(paths.outbox_lock):
        detached.start("finish", call.session.agent_path, paths, evidence.submission_number or 0)
    return count


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
