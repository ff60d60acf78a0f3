"""Describe a batch system's free resources, its waiting jobs, and the rest of your allowance."""

import os
import time
from typing import Any, Dict, Optional

from armada_agent.engines import allowance
from armada_agent.engines import engine as engines
from armada_agent.engines.engine import EngineError
from armada_agent.foundation import files, parameters
from armada_agent.foundation.session import Call

# All clients of this host share one answer, so that many of them cost the site no more than one.
_FRESH_S = 120.0


def describe(call: Call, params: Dict[str, Any]) -> Dict[str, Any]:
    """Return what `hosts check` and the dashboard show of a cluster.

    Returns:
        `partitions` (workers, if there are no partitions), `mine` and `others` (jobs by state), `quota`, `time` of the
        observation, and `error` if the batch system does not answer.
    """
    engine = engines.find(params.get("scheduler"))
    quota = parameters.sequence(params, "quota") if params.get("quota") is not None else None
    folder = os.path.join(call.root, "schedulers")
    os.makedirs(folder, mode=0o700, exist_ok=True)
    kept_in = os.path.join(folder, "queue.json")
    kept = _read(kept_in)
    newest = parameters.seconds(params, "no_older_than_s") if "no_older_than_s" in params else _FRESH_S
    if kept is not None and 0 <= time.time() - kept["time"] < newest:
        return kept
    answer: Dict[str, Any] = {
        "time": time.time(),
        "partitions": [],
        "mine": {},
        "others": {},
        "error": None,
        "quota": None,
    }
    try:
        answer.update(engine.describe_queue())
    except EngineError as error:
        answer["error"] = error.message[:2000]
    if quota:
        answer["quota"] = allowance.ask(quota)[0]
    files.keep_json(kept_in, answer)
    return answer


def _read(path: str) -> Optional[Dict[str, Any]]:
    try:
        kept = files.read_json(path)
    except files.UnreadableError:
        return None
    return kept if kept is not None and isinstance(kept.get("time"), (int, float)) else None
