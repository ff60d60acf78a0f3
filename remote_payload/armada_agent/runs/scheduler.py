"""Which batch system has a submission: by what was written when it was asked, or else by the run's plan."""

import os
from typing import Any, Dict, Optional

from armada_agent.engines import engine as engines
from armada_agent.errors import AgentError
from armada_agent.foundation import files
from armada_agent.paths import RunPaths, SweepPaths

SAFE = "it is safe to run the command again; nothing is submitted twice"


def read_scheduler(paths: RunPaths) -> Optional[Dict[str, Any]]:
    """Return the settings of the batch system that a run's plan names; None for `direct`.

    Raises:
        AgentError: `io`: the plan is lost or damaged.
    """
    try:
        plan = files.read_json(paths.spec)
    except files.UnreadableError as error:
        raise AgentError("io", str(error))
    if plan is None:
        raise AgentError("io", "the plan of run %s, spec.json, is no longer on its host" % paths.run_id)
    settings = plan.get("scheduler")
    return settings if isinstance(settings, dict) else None


def asked_scheduler(handed: engines.Handed) -> Optional[str]:
    """Return the batch system that may have a submission whose job is not recorded; None if none was asked for it.

    Raises:
        AgentError: `outcome_unknown`: one was asked, and nothing says which.
    """
    place = place_of(handed)
    asked = handed.file("asked.json")
    if place is not None:
        asked = SweepPaths(handed.paths.root, place.sweep).array(place.number, "asked.json")
    kind = _read(asked).get("scheduler")
    if isinstance(kind, str):
        return kind
    try:
        settings = read_scheduler(handed.paths)  # an agent of before did not write down whom it asked
    except AgentError as error:
        if place is None and not any(map(os.path.lexists, (asked, handed.file("taken.json")))):
            return None
        message = "it is unknown which batch system has %s: %s" % (handed.paths.run_id, error.message)
        raise AgentError("outcome_unknown", message, "look for %s in the queue on the host" % handed.name)
    return None if settings is None else str(settings.get("kind"))


def place_of(handed: engines.Handed) -> Optional[engines.Place]:
    """Return a submission's place in an array.

    Raises:
        AgentError: `outcome_unknown`: the record is damaged.
    """
    try:
        return handed.place
    except files.UnreadableError as error:
        message = "it is unknown which job of an array runs %s: %s" % (handed.paths.run_id, error)
        raise AgentError("outcome_unknown", message, SAFE)


def _read(path: str) -> Dict[str, Any]:
    try:
        return files.read_json(path) or {}
    except files.UnreadableError:
        return {}
