"""Take many runs in one request: the cells of a sweep. Each is created as `run.create` does, and claimed; a dispatcher starts them."""

import os
import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Dict, List, Optional

from armada_agent.errors import AgentError
from armada_agent.foundation import files, parameters
from armada_agent.foundation.log import say
from armada_agent.foundation.session import Call
from armada_agent.host import detached, setup_lines
from armada_agent.paths import RunPaths, SweepPaths, checked_run_id
from armada_agent.runs import arrays, dispatcher, folders, repeated, submissions

_MOST_CELLS = 1000
_MOST_SWEEPS = 200
_MOST_IN_ARRAYS = 10000
_JOB_FILE = re.compile(r"job\.[a-z]{2,8}")
_THREADS = 8
"""Durable files wait for the disk, which takes several requests at once."""


def start(call: Call, params: Dict[str, Any]) -> Dict[str, Any]:
    """Create the cells of a sweep, claim them and start the sweep's dispatcher. Repeating the request changes nothing.

    Nothing is claimed before every cell is created, so nothing starts if one is refused. A batch system gets the cells
    as arrays; a request with cells and without `arrays` only creates them, because more are to follow.

    Raises:
        AgentError: The errors of `run.create`; `outcome_unknown`: some cells are claimed and some are not, or an
            earlier request has claimed some and this one fails; those of `arrays.hand_over`.
    """
    sweep = SweepPaths(call.root, params.get("sweep"))
    parallel = parameters.integer(params, "parallel", default=1, least=1)
    asked = _read_cells(params)
    job_arrays = _read_arrays(params)
    batch = {isinstance(cell["spec"].get("scheduler"), dict) for cell in asked} or {True}
    if batch != {bool(job_arrays)} and batch != {True}:
        raise AgentError("bad_request", "`arrays` are for cells of a batch system, and for nothing else")
    submissions.require_linux()
    run_ids = [cell["run_id"] for cell in asked]
    # A cell that only this request has claimed may start, too: the sweep's list has it, and its arrays are completed.
    concerned = [RunPaths(call.root, run_id) for run_id in [*run_ids, *(each for ids, _ in job_arrays for each in ids)]]
    with repeated.doubted(concerned, 1, sure=("bad_request", "conflict")):
        setup_lines.apply()  # before anything is claimed, because a line may fail
        shared = {name: params[name] for name in ("secrets", "home") if params.get(name) is not None}
        with ThreadPoolExecutor(max_workers=_THREADS) as pool:
            list(pool.map(lambda cell: folders.create(call, dict(cell, **shared)), asked))
        if batch == {True}:
            return _hand_over(sweep, run_ids, job_arrays, parallel if params.get("parallel") is not None else None)
        _write_plan(sweep, run_ids, parallel)
        return {"cells": _claim_all(call, sweep, run_ids)}


def _claim_all(call: Call, sweep: SweepPaths, run_ids: List[str]) -> List[Dict[str, Any]]:
    try:
        with ThreadPoolExecutor(max_workers=_THREADS) as pool:
            outcomes = list(pool.map(lambda run_id: submissions.claim_first(RunPaths(call.root, run_id)), run_ids))
        detached.start_dispatcher(call.session.agent_path, sweep)
    except OSError as error:
        message = "not all cells of %s could be claimed: %s" % (sweep.sweep, error)
        raise AgentError("outcome_unknown", message, "it is safe to run the command again; nothing is started twice")
    return [{"run_id": each, "outcome": word} for each, word in zip(run_ids, outcomes)]


def _hand_over(
    sweep: SweepPaths, run_ids: List[str], job_arrays: List[arrays.Asked], parallel: Optional[int]
) -> Dict[str, Any]:
    if not job_arrays:
        return {"cells": [{"run_id": each, "outcome": "created"} for each in run_ids], "arrays": []}
    done = arrays.hand_over(sweep, job_arrays, parallel)
    outcomes: Dict[str, str] = done["outcomes"]
    return {
        "cells": [{"run_id": each, "outcome": word} for each, word in outcomes.items()],
        "arrays": done["arrays"],
    }


def tend(call: Call, params: Dict[str, Any]) -> Dict[str, Any]:
    """Start the dispatchers of sweeps whose cells wait for one: a reboot or a kill may have ended it.

    Returns:
        For each sweep that is here, how many cells wait.

    Raises:
        AgentError: `io`: some could not be looked at; the other ones were.
    """
    asked = parameters.sequence(params, "sweeps")
    if len(asked) > _MOST_SWEEPS:
        raise AgentError("bad_request", "at most %d sweeps per request" % _MOST_SWEEPS)
    answers: List[Dict[str, Any]] = []
    problems: List[str] = []
    for sweep in [SweepPaths(call.root, name) for name in asked]:
        try:
            waiting = _tend(call, sweep)
        except (OSError, files.UnreadableError, AgentError) as error:
            problems.append("sweep %s: %s" % (sweep.sweep, error))  # that says nothing about the other ones
            continue
        if waiting is not None:
            answers.append({"sweep": sweep.sweep, "waiting": waiting})
    if problems:
        raise AgentError("io", "; ".join(problems[:3]))
    return {"sweeps": answers}


def _tend(call: Call, sweep: SweepPaths) -> Optional[int]:
    """Start a sweep's dispatcher if cells wait for one; return how many do, None if the sweep is not here.

    Raises:
        OSError, files.UnreadableError, AgentError: Its own records cannot be read or written.
    """
    open_cells = arrays.tend(sweep)
    if open_cells is not None:
        return open_cells
    plan = dispatcher.read_plan(sweep)
    if plan is None:
        return None
    waiting = sum(1 for run_id in plan.cells if _waits(call.root, run_id))
    if waiting and not files.is_locked(sweep.dispatcher_lock):
        setup_lines.apply()
        _write_plan(sweep, [], plan.parallel)
        detached.start_dispatcher(call.session.agent_path, sweep)
    return waiting


def _waits(root: str, run_id: str) -> bool:
    """Return whether a cell waits for its start. One that cannot be seen does not keep the others from theirs."""
    try:
        return dispatcher.standing(RunPaths(root, run_id)) == dispatcher.WAITING
    except (OSError, files.UnseenError, AgentError) as error:
        say("%s: %s" % (run_id, error))
        return False


def _read_cells(params: Dict[str, Any]) -> List[Dict[str, Any]]:
    asked = parameters.sequence(params, "cells")
    if len(asked) > _MOST_CELLS:
        raise AgentError("bad_request", "at most %d cells per request" % _MOST_CELLS)
    for cell in asked:
        if not isinstance(cell, dict):
            raise AgentError("bad_request", "each of `cells` must be an object")
        parameters.mapping(cell, "spec")
    return [{"run_id": cell.get("run_id"), "spec": cell["spec"], "files": cell.get("files") or {}} for cell in asked]


def _read_arrays(params: Dict[str, Any]) -> List[arrays.Asked]:
    asked = parameters.sequence(params, "arrays") if params.get("arrays") is not None else []
    found: List[arrays.Asked] = []
    for each in asked:
        if not isinstance(each, dict):
            raise AgentError("bad_request", "each of `arrays` must be an object")
        run_ids = [checked_run_id(run_id) for run_id in parameters.sequence(each, "cells")]
        job_files = parameters.texts(each, "files")
        if not all(_JOB_FILE.fullmatch(name) for name in job_files):
            raise AgentError("bad_request", "%.200r are not files of an array" % sorted(job_files))
        found.append((run_ids, job_files))
    listed = [run_id for run_ids, _ in found for run_id in run_ids]
    if len(set(listed)) < len(listed) or len(listed) > _MOST_IN_ARRAYS:
        raise AgentError("bad_request", "a cell is in two of `arrays`, or they have more than %d" % _MOST_IN_ARRAYS)
    return found


def _write_plan(sweep: SweepPaths, run_ids: List[str], parallel: int) -> None:
    """Add cells to a sweep's list, which a living dispatcher reads again and again."""
    files.make_folders(sweep.folder)
    with files.locked(sweep.edit_lock):
        try:
            plan = dispatcher.read_plan(sweep)
        except files.UnreadableError as error:
            raise AgentError("io", "sweep %s: %s" % (sweep.sweep, error))
        known = plan.cells if plan is not None else []
        there = set(known)
        cells = known + [run_id for run_id in run_ids if run_id not in there]
        files.write_json(sweep.cells, {"cells": cells, "parallel": parallel, "exported": setup_lines.exported()})
        os.chmod(sweep.folder, 0o700)
