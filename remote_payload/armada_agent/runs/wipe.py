"""Clear a host before it is released: delete secrets and, on request, all of armada's files."""

import contextlib
import os
from typing import Any, Dict, List

from armada_agent.errors import AgentError
from armada_agent.foundation import deletion, files
from armada_agent.foundation.session import Call
from armada_agent.host import processes, roots
from armada_agent.host.processes import Process
from armada_agent.outbox import homes
from armada_agent.paths import RunPaths, list_folder
from armada_agent.runs import dispatcher, leftover_processes
from armada_agent.runs.folders import list_runs
from armada_agent.runs.observation import Evidence
from armada_agent.verdicts import following

OURS = ("sweeps", "runs", "envs", "code", "data", "models", "prepared", "schedulers", "tools", "locks", "agent")
"""The names that armada creates below its root, in the order of deletion. Other names belong to the user."""


def forget_secrets(call: Call, params: Dict[str, Any]) -> Dict[str, Any]:
    """Delete the secrets of every run that has ended; with `leaves`, of every run that is not alive.

    Returns:
        In `removed` the ids of the runs whose secrets were deleted, in `kept` the ids of those that still need theirs.
    """
    table, leaves = processes.scan(), params.get("leaves") is True
    removed: List[str] = []
    kept: List[str] = []
    for paths in _all_runs(call):
        if os.path.exists(paths.secrets):
            goes = _may_release_secrets(paths, table, leaves)
            (removed if goes else kept).append(paths.run_id)
            if goes:
                files.remove(paths.secrets)
    return {"removed": removed, "kept": kept}


def wipe(call: Call, params: Dict[str, Any]) -> Dict[str, Any]:
    """Delete all of armada's files below the root, and the root itself if it is then empty.

    If another home was registered for one of the runs, root.json stays: it records who wiped the host, and when.

    Returns:
        In `removed` what was deleted, in `left` what remains, in `root` the id of the deleted root.

    Raises:
        AgentError: `conflict`: a run lives or may still start, or another home would lose something.
    """
    asker = homes.read_asker(params)
    table = processes.scan()
    found = {paths.run_id: Evidence(paths, table) for paths in _all_runs(call)}
    alive = [run_id for run_id, evidence in found.items() if _is_alive(evidence)]
    # Somebody deleted the folders of these; their jobs go on, below a root that would have another name afterwards.
    named = leftover_processes.of_root(call.root, table, or_unmarked=False)
    alive += [paths.run_id for paths in named if paths.run_id not in found]
    alive += dispatcher.find_alive(call.root)
    if alive:
        raise AgentError("conflict", "%s is still alive" % ", ".join(alive[:5]), "stop it first")
    waiting = [run_id for run_id, evidence in found.items() if evidence.may_still_start]
    if waiting:
        raise AgentError("conflict", "%s may still start" % ", ".join(waiting[:5]), "stop it first")
    lacking = [words for paths in _all_runs(call) for words in homes.find_lacking(paths, asker).values()]
    if lacking:
        hint = "sync there first; or, if that home is gone, armada hosts forget-home"
        raise AgentError("conflict", "; ".join(lacking[:5]), hint)
    former = roots.identify(call.root)
    tells = roots.was_wiped(call.root) or any(homes.has_others(paths, asker) for paths in _all_runs(call))
    removed = []
    roots.forget_mark(call.root)
    for name in OURS:
        place, trash = os.path.join(call.root, name), os.path.join(call.root, ".trash-" + name)
        if os.path.lexists(trash):  # of a wipe that did not end
            deletion.delete_folder(trash, trash)
        if os.path.lexists(place):
            os.rename(place, trash)  # so that a half-deleted folder never looks complete
            deletion.delete_folder(trash, place)
            removed.append(name)
    roots.forget_mark(call.root)  # whoever looked meanwhile may have noted it again
    if tells:
        roots.note_wipe(call.root, former, (asker or {}).get("label") or homes.NOBODY)
    else:
        files.remove(os.path.join(call.root, roots.NAME))  # last: whatever is created here afterwards is another root
    with contextlib.suppress(OSError):  # it contains files of the user, or is a mount point
        os.rmdir(call.root)
    return {
        "removed": removed,
        "root": former,
        "left": [] if not os.path.isdir(call.root) else list_folder(call.root)[:20],
    }


def _all_runs(call: Call) -> List[RunPaths]:
    return [RunPaths(call.root, run["run_id"]) for run in list_runs(call, {})["runs"]]


def _may_release_secrets(paths: RunPaths, table: List[Process], leaves: bool) -> bool:
    """Judge whether a run needs its secrets no more. One with unreadable records may need them; that protects no other run's."""
    try:
        evidence = Evidence(paths, table)
        may_live = evidence.may_still_start or _is_alive(evidence)
        return following.may_release_secrets(evidence.has_ended or evidence.is_over, may_live, leaves)
    except (OSError, AgentError):
        return False


def _is_alive(evidence: Evidence) -> bool:
    return evidence.supervisor in ("alive", "unknown") or bool(evidence.processes())
