"""Hand cells of a sweep over to a batch system as arrays of jobs: one request to it for up to thousands of them.

What is done is decided by files, as for a single submission: an array's list of runs is durable before any is claimed,
the claims before the batch system is asked. A request that broke off anywhere is completed by the next one, or by
`sweep.tend`. The batch system is asked for the array's name before it is asked for an array again.
"""

import os
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Container, Dict, List, Optional, Sequence, Tuple

from armada_agent.engines import allowance, array_records
from armada_agent.engines import engine as engines
from armada_agent.engines.engine import EngineError, HandedArray
from armada_agent.errors import AgentError
from armada_agent.foundation import files
from armada_agent.foundation.log import say
from armada_agent.host import job_variables, setup_lines
from armada_agent.paths import RunPaths, SweepPaths, newest
from armada_agent.runs import submissions
from armada_agent.runs.scheduler import SAFE, read_scheduler

_THREADS = 8
Asked = Tuple[List[str], Dict[str, str]]
"""The runs of one array, and its files."""


class RefusedError(Exception):
    """The batch system refused an array. Nothing of it was submitted."""

    def __init__(self, error: EngineError) -> None:
        super().__init__(error.message)
        self.error = error


def hand_over(sweep: SweepPaths, asked: Sequence[Asked], parallel: Optional[int]) -> Dict[str, Any]:
    """Submit runs that exist as arrays, unless that has been done.

    Args:
        sweep: The sweep's files.
        asked: The arrays. One with more runs than the batch system allows becomes several.
        parallel: How many of these runs are started at once; None: as many as the batch system starts.

    Returns:
        `outcomes` by run id: `claimed`, `already` or `cancelled`; and `arrays`: id, number of jobs and limit of each
        new one.

    Raises:
        AgentError: `scheduler`: the batch system refuses; `outcome_unknown`: it is impossible to know whether it has
            an array, or it has some of them and refused another one.
    """
    files.make_folders(sweep.folder)
    with files.locked(sweep.arrays_lock) as lock:
        os.chmod(sweep.folder, 0o700)
        open_ones: Dict[int, AgentError] = {}
        told = {run_id for run_ids, _ in asked for run_id in run_ids}
        for number in sweep.arrays():
            try:
                _complete(sweep, number, lock, told)
            except AgentError as error:
                open_ones[number] = error  # it says nothing about cells that are not in it
        outcomes: Dict[str, str] = {}
        new: List[Asked] = []
        for run_ids, job_files in asked:
            words = {run_id: _standing(sweep, run_id) for run_id in run_ids}
            outcomes.update((run_id, word) for run_id, word in words.items() if word != "new")
            new += _divide(sweep, [run_id for run_id in run_ids if words[run_id] == "new"], job_files)
        for run_id in (each for each, word in outcomes.items() if word == "already" and open_ones):
            _refuse_open(sweep, run_id, open_ones)
        made = _submit_all(sweep, new, parallel, lock, outcomes)
    return {"outcomes": outcomes, "arrays": made}


def _refuse_open(sweep: SweepPaths, run_id: str, open_ones: Dict[int, AgentError]) -> None:
    """Raise the error of the array of which a run is part, if it is unknown whether the batch system has that array."""
    paths = RunPaths(sweep.root, run_id)
    if os.path.exists(paths.submission(1, "job.json")):
        return
    try:
        place = engines.Handed(paths, 1).place
    except files.UnreadableError as error:
        raise AgentError("outcome_unknown", "run %s: %s" % (run_id, error), SAFE)
    if place is not None and place.number in open_ones:
        raise open_ones[place.number]


def _submit_all(
    sweep: SweepPaths, new: Sequence[Asked], parallel: Optional[int], lock: int, outcomes: Dict[str, str]
) -> List[Dict[str, Any]]:
    made: List[Dict[str, Any]] = []
    shares = array_records.share([len(run_ids) for run_ids, _ in new], parallel)
    for (run_ids, job_files), (limit, before) in zip(new, shares):
        after = None if before is None else str(made[before]["job_id"])
        array = HandedArray(sweep, (newest(sweep.arrays()) or 0) + 1, run_ids, limit, after)
        try:
            array_records.write(array, job_files)
            array_id, words = _submit(array, lock)
        except RefusedError as refused:
            _take_back(array, array.run_ids, str(refused))
            if not made:
                raise engines.as_agent_error(refused.error)
            message = "%d jobs of the sweep are submitted, and the other ones are refused: %s"
            raise AgentError("outcome_unknown", message % (sum(each["cells"] for each in made), refused), SAFE)
        except OSError as error:
            raise AgentError("outcome_unknown", "the array %s cannot be recorded: %s" % (array.name, error), SAFE)
        outcomes.update(words)
        made.append({"job_id": array_id, "cells": len(run_ids), "limit": limit})
    return made


def _take_back(array: HandedArray, told: Container[str], why: str) -> None:
    """Take a refused array back. Runs of which nobody is `told` end with that: no request of home reports it."""
    for index, run_id in enumerate(array.run_ids):
        paths = RunPaths(array.paths.root, run_id)
        place = engines.Place(array.paths.sweep, array.number, index)
        if run_id in told:
            submissions.release_first(paths, place)
        elif _is_here(array.paths, run_id) and not _is_elsewhere(paths, place):
            submissions.end_refused(paths, why)
    array_records.forget(array)


def _is_elsewhere(paths: RunPaths, place: engines.Place) -> bool:
    """Return whether a run's first submission is another job than this one."""
    try:
        told = files.read_json(paths.submission(1, "array.json"))
    except files.UnreadableError:
        told = None
    return os.path.exists(paths.submission(1, "job.json")) or told not in (None, place.as_json())


def tend(sweep: SweepPaths) -> Optional[int]:
    """Complete arrays whose hand-over broke off.

    Returns:
        How many runs still wait for that; None if the sweep has no arrays here.
    """
    numbers = sweep.arrays()
    if not numbers:
        return None
    left = _count_open(sweep, numbers)
    lock = files.lock(sweep.arrays_lock, timeout_s=0) if left else None
    if lock is None:
        return left  # nothing is to be done, or another process is at it
    try:
        setup_lines.apply()
        for number in numbers:
            _try_to_complete(sweep, number, lock)
    finally:
        os.close(lock)
    return _count_open(sweep, numbers)


def _try_to_complete(sweep: SweepPaths, number: int, lock: int) -> None:
    try:
        _complete(sweep, number, lock, told=())
    except (AgentError, OSError) as error:
        say("%s: array %d: %s" % (sweep.sweep, number, error))


def _count_open(sweep: SweepPaths, numbers: Sequence[int]) -> int:
    """Count the runs of arrays whose hand-over has not come to its end."""
    total = 0
    for number in numbers:
        try:
            array = array_records.read(sweep, number)
            if array is not None and files.read_json(array.file("done.json")) is None:
                total += len(array.run_ids)
        except files.UnreadableError as error:
            say("%s: array %d: %s" % (sweep.sweep, number, error))
    return total


def _complete(sweep: SweepPaths, number: int, lock: int, told: Container[str]) -> None:
    """Submit an array that was decided, unless that has been done.

    Args:
        sweep: The sweep's files.
        number: The array's number.
        lock: The lock of the sweep's arrays.
        told: The runs of which a request waits for the answer. A refusal is recorded as the end of the others.

    Raises:
        AgentError: `outcome_unknown`.
    """
    try:
        array = array_records.read(sweep, number)
        is_done = files.read_json(sweep.array(number, "done.json")) is not None
    except files.UnreadableError as error:
        raise AgentError("outcome_unknown", "array %d of %s: %s" % (number, sweep.sweep, error), SAFE)
    if array is None or is_done:
        return
    try:
        _submit(array, lock)
    except RefusedError as refused:
        _take_back(array, told, str(refused))


def _standing(sweep: SweepPaths, run_id: str) -> str:
    """Return `new` for a run that is in no array, or else what became of it before."""
    paths = RunPaths(sweep.root, run_id)
    paths.require()
    return submissions.standing_of_first(paths) or "new"


def _divide(sweep: SweepPaths, run_ids: List[str], job_files: Dict[str, str]) -> List[Asked]:
    if not run_ids:
        return []
    most = _engine_of(sweep, run_ids[0])[1].largest_array()
    return [(run_ids[start : start + most], job_files) for start in range(0, len(run_ids), most)]


def _engine_of(sweep: SweepPaths, run_id: str) -> Tuple[str, Any, Dict[str, Any]]:
    settings = read_scheduler(RunPaths(sweep.root, run_id))
    if settings is None:
        raise AgentError("bad_request", "run %s has no batch system" % run_id)
    kind = str(settings.get("kind"))
    return kind, engines.find(kind), settings


def _submit(array: HandedArray, lock: int) -> Tuple[str, Dict[str, str]]:
    """Claim the runs of an array, submit it unless an earlier request did, and record the job of each run.

    Returns:
        The array's id, and what became of each run.

    Raises:
        RefusedError: The batch system refused it.
        AgentError: `outcome_unknown`.
    """
    sweep = array.paths
    present = [run_id for run_id in array.run_ids if _is_here(sweep, run_id)]
    if not present:
        raise RefusedError(EngineError("all of its runs were removed", refused=True))
    kind, engine, settings = _engine_of(sweep, present[0])
    place = {run_id: engines.Place(sweep.sweep, array.number, index) for index, run_id in enumerate(array.run_ids)}
    exported = setup_lines.exported()

    def claim(run_id: str) -> str:
        paths = RunPaths(sweep.root, run_id)
        word = submissions.claim_first(paths, place[run_id])
        job_variables.of_run(paths, exported)
        return word

    try:
        with ThreadPoolExecutor(max_workers=_THREADS) as pool:
            words = dict(zip(present, pool.map(claim, present)))
        array_id = _look_up_or_submit(array, kind, engine, settings, present, lock)
        files.link_json(array.file("job.json"), {"scheduler": kind, "job_id": array_id, "time": time.time()})

        def record(run_id: str) -> None:
            handed = engines.Handed(RunPaths(sweep.root, run_id), 1)
            own = handed.place
            if own is not None and own.as_json() == place[run_id].as_json():
                submissions.record_job(handed, kind, engine.job_in_array(array_id, own.index), own)

        with ThreadPoolExecutor(max_workers=_THREADS) as pool:
            list(pool.map(record, present))
        files.write_json(array.file("done.json"), {"time": time.time()})
    except (OSError, files.UnreadableError) as error:
        message = "the array %s could not be recorded: %s" % (array.name, error)
        raise AgentError("outcome_unknown", message, SAFE)
    return array_id, words


def _taken_files(array: HandedArray, present: List[str]) -> List[str]:
    """Return the files that jobs of an array write when they begin."""
    handed = [engines.Handed(RunPaths(array.paths.root, run_id), 1) for run_id in present]
    return [each.file("taken.json") for each in handed if each.queued_as == array.name]


def _is_here(sweep: SweepPaths, run_id: str) -> bool:
    try:
        RunPaths(sweep.root, run_id).require()
    except AgentError:
        return False
    return True


def _look_up_or_submit(
    array: HandedArray, kind: str, engine: Any, settings: Dict[str, Any], present: List[str], lock: int
) -> str:
    try:
        known = array_records.find_id(array.paths, array.number, kind)
    except EngineError as error:
        message = "it is unknown whether %s already has %s: %s" % (kind, array.name, error.message)
        raise AgentError("outcome_unknown", message, SAFE)
    if known is not None:
        return known
    allowance.note_before_all([RunPaths(array.paths.root, each) for each in present], settings)
    # From here until job.json exists, only the batch system knows whether there is an array.
    files.write_json(array.file("asked.json"), {"time": time.time(), "scheduler": kind})
    try:
        return str(engine.submit_many(array, lock))
    except EngineError as error:
        if (error.refused or error.missing) and not any(map(os.path.exists, _taken_files(array, present))):
            raise RefusedError(error)
        raise AgentError("outcome_unknown", error.message, SAFE)
