"""Ask HTCondor's queue, the schedd: about anything that answers quickly, and about the jobs of an array that are still to come."""

import contextlib
import time
from typing import Any, Dict, FrozenSet, List, Optional, Tuple

from armada_agent.engines import engine
from armada_agent.engines.engine import EngineError, Handed
from armada_agent.foundation import files
from armada_agent.paths import SweepPaths

PATIENCE_S = 10.0  # each program waits 20 s for a schedd that does not answer
_FRESH_S = 15.0
_LISTED_S = 900.0
_listed: Dict[str, Tuple[float, Optional[FrozenSet[str]]]] = {}
"""By root: when the queue was listed last, in seconds of this machine's clock, and the names of all submissions in it."""


def ask(options: List[str]) -> str:
    """Run condor_q for something that a schedd which is up answers quickly.

    Raises:
        EngineError: The schedd does not answer.
    """
    try:
        return engine.run_tool(["condor_q"] + options, timeout_s=PATIENCE_S)
    except EngineError as error:
        if error.missing:
            raise
        words = error.message.partition("Extra Info:")[0].strip()  # what follows explains HTCondor's settings
        raise EngineError("HTCondor's queue (the schedd) does not answer: " + words)


def find_array(name: str) -> Optional[str]:
    """Return the id of the array with this name, its cluster; None if the queue has none, also not of jobs that are to come.

    Raises:
        EngineError: The schedd does not answer.
    """
    words = ask(["-factory", "-constraint", 'ArmadaArray == "%s"' % name, "-autoformat", "ClusterId"]).split()
    words = words or ask(["-constraint", 'ArmadaArray == "%s"' % name, "-autoformat", "ClusterId"]).split()
    return words[0] if words and words[0].isdigit() else None


def lacks(handed: Handed, now_s: float) -> bool:
    """Return whether the queue does not list a submission; False if it does not answer.

    It is asked once for all submissions: every quarter of an hour at most, and every 15 s where it does not list one.

    Args:
        handed: The submission.
        now_s: Seconds of this machine's clock.
    """
    root = handed.paths.root
    at_s, names = _listed.get(root, (float("-inf"), None))
    age_s = now_s - at_s
    if not 0 <= age_s < (_LISTED_S if names is None or handed.name in names else _FRESH_S):
        try:
            said = ask(["-constraint", "ArmadaSubmission =!= undefined", "-autoformat", "ArmadaSubmission"])
            names = frozenset(said.split())
        except EngineError:
            names = None
        _listed[root] = (now_s, names)
    return names is not None and handed.name not in names


def is_to_come(handed: Handed) -> bool:
    """Return whether a submission is a job of an array that HTCondor puts into the queue later, when another one has ended.

    The schedd is asked once for all jobs of the array, every 15 s at most. If it does not answer, its last answer counts.
    """
    place = handed.place
    if place is None or not handed.job_id:
        return False
    cluster = handed.job_id.partition(".")[0]
    kept_in = SweepPaths(handed.paths.root, place.sweep).array(place.number, "factory.json")
    kept = _read(kept_in)
    if not 0 <= time.time() - kept["at"] < _FRESH_S:
        with contextlib.suppress(EngineError):
            said = ask(["-factory", cluster, "-autoformat", "JobMaterializeNextProcId"]).split()
            kept["next"] = int(said[0]) if said and said[0].isdigit() else None
        kept["at"] = time.time()
        files.keep_json(kept_in, kept)
    return isinstance(kept["next"], int) and place.index >= kept["next"]


def _read(path: str) -> Dict[str, Any]:
    try:
        kept = files.read_json(path) or {}
    except files.UnreadableError:
        kept = {}
    at, following = kept.get("at"), kept.get("next")
    return {
        "at": float(at) if isinstance(at, (int, float)) else 0.0,
        "next": following if isinstance(following, int) and not isinstance(following, bool) else None,
    }
