"""Clear a host before it is released: delete secrets and, on request, all of armada's files."""

import contextlib
import os
from typing import Any, Dict, List, Optional

from armada_agent.errors import AgentError
from armada_agent.foundation import deletion, files, parameters
from armada_agent.foundation.session import Call
from armada_agent.host import processes, roots, set_aside
from armada_agent.host.processes import Process
from armada_agent.outbox import homes
from armada_agent.paths import (
    ASIDE,
    RunPaths,
    checked_digest,
    checked_run_id,
    list_folder,
    list_run_ids,
    list_runs_folder,
    runs_folder,
)
from armada_agent.records import forgetting
from armada_agent.runs import dispatcher, leftover_processes
from armada_agent.runs.folders import list_runs, require_judged
from armada_agent.runs.observation import Evidence
from armada_agent.verdicts import following, removing, wiping

OURS = ("sweeps", "runs", "envs", "code", "data", "models", "prepared", "schedulers", "tools", "locks", "agent")
"""The names that armada creates below its root, in the order of deletion. Other names belong to the user."""
_LAST = ("locks", "agent")
"""What a run that comes at the last moment needs."""
_WAIT_S = 5.0
_REPEATED_WAIT_S = 600.0
"""How long a wipe waits that names its root, in seconds: the one that runs may be the same request, of a lost connection."""


def forget_secrets(call: Call, params: Dict[str, Any]) -> Dict[str, Any]:
    """Delete the secrets of every run that has ended; with `leaves`, of every run that is not alive.

    Home judges a host for minutes. Of what another home puts there meanwhile, which is claimed only once all of it is
    there, `leaves` takes nothing: only of the `runs` that home had listed, if it names them.

    Returns:
        In `removed` the ids of the runs whose secrets were deleted, in `kept` the ids of those that still need theirs.
    """
    table, leaves = processes.scan(), params.get("leaves") is True
    listed = None if params.get("runs") is None else set(map(checked_run_id, parameters.sequence(params, "runs")))
    removed: List[str] = []
    kept: List[str] = []
    for paths in _all_runs(call):
        if os.path.exists(paths.secrets):
            former = _without_need(paths, table, leaves and (listed is None or paths.run_id in listed))
            goes = former is not None and forgetting.forget(paths, former, must=False)
            (removed if goes else kept).append(paths.run_id)
    return {"removed": removed, "kept": kept}


def wipe(call: Call, params: Dict[str, Any]) -> Dict[str, Any]:
    """Delete all of armada's files below the root, and the root itself if it is then empty.

    Another home may put something here at any moment, and an older agent of it knows of no lock. So the runs are judged,
    set aside by one rename, and judged again there: what came since the first look is put back with all the rest, and
    nothing is deleted. Only then are they renamed to what is deleted (`host/set_aside.py`, `verdicts/wiping.py`).

    If another home was registered for one of the runs, root.json stays: it records who wiped the host, and when. It also
    stays until a home that names the root says that it has the answer (`forget_wipe`): where the answer is lost, the home
    asks again, of what is another root by then.

    Returns:
        In `removed` what was deleted, in `left` what remains, in `root` the id of the deleted root.

    Raises:
        AgentError: `conflict`: a run lives or may still start, another home would lose something, or something was put
            here meanwhile, or since home judged the host: the root, or a run, is another one than it names, or a run has
            more than it names.
    """
    asker, judged, named = homes.read_asker(params), _read_judged(params), params.get("root")
    with set_aside.alone(call.root, _WAIT_S if named is None else _REPEATED_WAIT_S):
        set_aside.put_back_all(call.root)  # a wipe that was killed had not judged these
        former, wiped, there = roots.identify(call.root), roots.former_ids(call.root), list_run_ids(call.root)
        _refuse(wiping.why_not_this_root(named, former, wiped, there))
        if wiping.is_repeated(named, wiped, there):
            former = named
        for name in OURS:
            deletion.delete_folder(_trash(call.root, name), _trash(call.root, name))  # these it had
        before = _see(call.root, asker)
        _refuse(wiping.why_not(before))
        _refuse_unjudged(call.root, judged, before)
        has_others = any(homes.has_others(paths, asker) for paths in _all_runs(call))
        try:
            aside = set_aside.set_aside(call.root)
            _refuse(wiping.why_not_since(before, _see(call.root, asker, aside)))
            roots.forget_mark(call.root)  # before the runs are no more: without them it would say that a disk is away
            trash = None if aside is None else set_aside.accept(call.root, aside)
        except (AgentError, OSError):
            set_aside.put_back_all(call.root)
            raise
        removed = _delete(call.root, trash)
        if has_others or named is not None or roots.tells_others(call.root):
            by = (asker or {}).get("label") or homes.NOBODY
            roots.note_wipe(call.root, former, by, only_asker=named is not None and not has_others)
        else:
            # Last: whatever is created here afterwards is another root.
            files.remove(os.path.join(call.root, roots.NAME))
        set_aside.forget_lock(call.root)
    with contextlib.suppress(OSError):  # it contains files of the user, or is a mount point
        os.rmdir(call.root)
    return {
        "removed": removed,
        "root": former,
        "left": [] if not os.path.isdir(call.root) else list_folder(call.root)[:20],
    }


def forget_wipe(call: Call, params: Dict[str, Any]) -> Dict[str, Any]:
    """Forget wipes of which a home has recorded that they were done, with the root itself if it is then empty."""
    recorded = [one for one in parameters.sequence(params, "roots") if isinstance(one, str)]
    with set_aside.alone(call.root, _WAIT_S):
        roots.forget_wipes(call.root, recorded)
        set_aside.forget_lock(call.root)
    with contextlib.suppress(OSError):  # it contains something else
        os.rmdir(call.root)
    return {}


def _read_judged(params: Dict[str, Any]) -> Optional[Dict[str, removing.FolderSeen]]:
    """Read which runs home judged, and what they had; None if it does not say, as an older one."""
    if params.get("runs") is None:
        return None
    judged: Dict[str, removing.FolderSeen] = {}
    for one in parameters.sequence(params, "runs"):
        if not isinstance(one, dict):
            raise AgentError("bad_request", "each of `runs` must be an object")
        submission, attempt, announced = (
            None if one.get(name) is None else parameters.integer(one, name)
            for name in ("submission", "attempt", "announced")
        )
        digests = None
        if one.get("checkpoints") is not None:
            digests = frozenset(map(checked_digest, parameters.sequence(one, "checkpoints")))
        judged[checked_run_id(one.get("run_id"))] = removing.FolderSeen(submission, attempt, digests, announced)
    return judged


def _refuse_unjudged(root: str, judged: Optional[Dict[str, removing.FolderSeen]], seen: wiping.Seen) -> None:
    """Refuse what home did not judge: a run, or something of a run.

    Raises:
        AgentError: `conflict`.
    """
    if judged is None:
        return
    _refuse(wiping.why_not_unjudged({run_id: each.submission for run_id, each in judged.items()}, seen))
    for run in seen.runs:
        require_judged(RunPaths(root, run.run_id), judged[run.run_id])


def _delete(root: str, runs: Optional[str]) -> List[str]:
    """Delete all that is armada's, `runs` where it is set aside.

    All but the agent is renamed before anything is deleted, which may take minutes: what is put there meanwhile is new.

    Returns:
        The names of what was deleted.

    Raises:
        AgentError: `conflict`: a run came meanwhile; it and the agent stay. `io`: something cannot be deleted.
    """
    going = {} if runs is None else {"runs": runs}
    for name in OURS:
        if name not in (*_LAST, "runs") and os.path.lexists(os.path.join(root, name)):
            going[name] = _rename(root, name)
    for name in filter(going.__contains__, OURS):
        deletion.delete_folder(going[name], os.path.join(root, name))
    _refuse(wiping.why_not_the_rest(list_run_ids(root)))
    with contextlib.suppress(OSError):  # made anew by whoever created no run there, or a mount point
        os.rmdir(runs_folder(root))
    for name in _LAST:
        if os.path.lexists(os.path.join(root, name)):
            going[name] = _rename(root, name)
            deletion.delete_folder(going[name], os.path.join(root, name))
    roots.forget_mark(root)  # whoever looked meanwhile may have noted it again
    return list(filter(going.__contains__, OURS))


def _rename(root: str, name: str) -> str:
    trash = _trash(root, name)
    os.rename(os.path.join(root, name), trash)  # so that a half-deleted folder never looks complete
    return trash


def _trash(root: str, name: str) -> str:
    return os.path.join(root, set_aside.TRASH + name)


def _see(root: str, asker: Optional[homes.Home], aside: Optional[str] = None) -> wiping.Seen:
    """Look at the runs, where they are or where they are set aside, and at what lives."""
    table = processes.scan()
    there = [RunPaths(root, run_id, aside) for run_id in list_run_ids(root, aside)]
    seen = [_see_run(paths, asker, table) for paths in there]
    # Somebody deleted the folders of these; their jobs go on, below a root that would have another name afterwards.
    named = leftover_processes.of_root(root, table, or_unmarked=False)
    known = {paths.run_id for paths in there}
    came = [] if aside is None else _names(root, None)
    return wiping.Seen(
        runs=seen,
        without_folder=[paths.run_id for paths in named if paths.run_id not in known],
        dispatchers=dispatcher.find_alive(root),
        strange=frozenset(_names(root, aside)) - known,
        came=came,
    )


def _names(root: str, aside: Optional[str]) -> List[str]:
    """List what is among the runs but for armada's own files."""
    return [
        name for name in list_runs_folder(root, aside) if not (files.is_temporary(name) or name in (roots.MARK, ASIDE))
    ]


def _see_run(paths: RunPaths, asker: Optional[homes.Home], table: List[Process]) -> wiping.RunSeen:
    evidence = Evidence(paths, table)
    announced = map(os.path.basename, paths.announced())
    return wiping.RunSeen(
        run_id=paths.run_id,
        alive=_is_alive(evidence),
        may_start=evidence.may_still_start,
        lacking=list(homes.find_lacking(paths, asker).values()),
        submission=evidence.submission_number,
        checkpoints=frozenset(paths.checkpoints()).union(announced),
    )


def _refuse(refusal: Optional[wiping.Refusal]) -> None:
    if refusal is not None:
        raise AgentError("conflict", refusal.what, refusal.hint)


def _all_runs(call: Call) -> List[RunPaths]:
    return [RunPaths(call.root, run["run_id"]) for run in list_runs(call, {})["runs"]]


def _without_need(paths: RunPaths, table: List[Process], leaves: bool) -> Optional[int]:
    """Return the newest submission of a run, 0 before the first, if it needs its secrets no more; else None.

    One with unreadable records may need them; that protects no other run's.
    """
    try:
        evidence = Evidence(paths, table)
        may_live = evidence.may_still_start or _is_alive(evidence)
        goes = following.may_release_secrets(evidence.has_ended or evidence.may_forget_secrets, may_live, leaves)
    except (OSError, AgentError):
        return None
    return (evidence.submission_number or 0) if goes else None


def _is_alive(evidence: Evidence) -> bool:
    return evidence.supervisor in ("alive", "unknown") or bool(evidence.processes())
