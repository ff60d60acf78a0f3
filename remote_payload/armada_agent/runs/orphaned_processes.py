"""List processes of runs that no supervisor looks after: they outlived it, or somebody deleted the run's folder.

What they are worth is home's decision; `run.stop` ends them.
"""

from typing import Any, Dict, List, Optional, Set, Tuple

from armada_agent.errors import AgentError
from armada_agent.foundation import parameters, process_identity
from armada_agent.foundation.session import Call
from armada_agent.host import gpus, processes, roots
from armada_agent.host.processes import Process
from armada_agent.paths import RunPaths
from armada_agent.records.place import is_gone
from armada_agent.runs import leftover_processes
from armada_agent.runs.observation import Evidence

_MOST_RUNS = 500
_MOST_PROCESSES = 50  # of one run; their number is always told


def find(call: Call, params: Dict[str, Any]) -> Dict[str, Any]:
    """List the runs under this root whose processes live on this machine without a supervisor.

    Only processes that this user may examine are seen, by the marker in their environment. A run in `also` is listed
    even if something looks after it, such as what clears up after a stop.
    """
    table = processes.scan()
    also = (
        {each for each in parameters.sequence(params, "also") if isinstance(each, str)} if "also" in params else set()
    )
    found: List[Dict[str, Any]] = []
    root = roots.identify(call.root)
    for paths in leftover_processes.of_root(call.root, table, or_unmarked=True):
        described = _describe(paths, table, paths.run_id in also)
        if described is not None:
            found.append(described)
    of_gpus = _gpus_by_pid() if found else {}
    for run in found[:_MOST_RUNS]:
        run["processes"] = [
            {
                "pid": process.pid,
                "name": process.name(),
                "age_s": process_identity.age_s(process.pid),
                "gpus": sorted(of_gpus.get(process.pid, ())),
            }
            for process in run["processes"][:_MOST_PROCESSES]
        ]
    return dict(roots.describe(call.root, root), runs=found[:_MOST_RUNS], more=len(found[_MOST_RUNS:]))


def _describe(paths: RunPaths, table: List[Process], also: bool) -> Optional[Dict[str, Any]]:
    if leftover_processes.supervisors(paths, table) and not also:
        return None  # a supervisor, or who clears up after it
    try:
        if is_gone(paths):
            members = processes.members(paths, None, table)
            return _entry(paths, members, exists=False) if members else None
        evidence = Evidence(paths, table)
        members = evidence.processes()
        if not members or (evidence.supervisor in ("alive", "unknown") and not also):
            return None
        has_ended = evidence.has_ended and not evidence.may_still_start
        return _entry(paths, members, exists=True, has_ended=has_ended)
    except (OSError, AgentError):
        members = processes.members(paths, None, table)
        return _entry(paths, members, exists=True) if members else None


def _entry(paths: RunPaths, members: List[Process], exists: bool, has_ended: Optional[bool] = None) -> Dict[str, Any]:
    """Return what is told of a run. `has_ended` is null where its records cannot be read."""
    return {
        "run_id": paths.run_id,
        "exists": exists,
        "has_ended": has_ended,
        "count": len(members),
        "processes": sorted(members, key=lambda process: process.pid),
    }


def _gpus_by_pid() -> Dict[int, Set[int]]:
    """Return the indices of the GPUs that processes use. Nothing where nvidia-smi does not answer: it decides nothing."""
    if not gpus.is_installed():
        return {}
    found: Dict[int, Set[int]] = {}
    try:
        indices: Dict[str, int] = {gpu["uuid"]: gpu["index"] for gpu in gpus.list_gpus()}
        users: List[Tuple[str, int]] = gpus.list_users()
    except gpus.GpuError:
        return {}
    for uuid, pid in users:
        if uuid in indices:
            found.setdefault(pid, set()).add(indices[uuid])
    return found
