"""The records of an array of jobs: which runs it has, whether the batch system was asked for it, and its id there.

An array is decided by `array.json`, which lists its runs. `asked.json` says that the batch system is being asked: from
here only it knows whether there is an array. `job.json` holds the array's id.
"""

import os
import time
from typing import Dict, List, Optional, Sequence, Tuple

from armada_agent.engines import engine
from armada_agent.engines.engine import EngineError, HandedArray
from armada_agent.errors import AgentError
from armada_agent.foundation import files
from armada_agent.paths import RunPaths, SweepPaths, checked_run_id
from armada_agent.records.ending import ENDED
from armada_agent.records.place import is_gone
from armada_agent.records.stop_request import concerns, read_stop_request

_LIMIT = 1024 * 1024


def read(sweep: SweepPaths, number: int) -> Optional[HandedArray]:
    """Return an array; None if none of this number was decided.

    Raises:
        files.UnreadableError: Its record is damaged.
    """
    told = files.read_json(sweep.array(number, "array.json"), limit=_LIMIT)
    if told is None:
        return None
    cells, limit, after = told.get("cells"), told.get("limit"), told.get("after")
    if not isinstance(cells, list) or not cells or not all(isinstance(each, str) for each in cells):
        raise files.UnreadableError("array.json lists no runs")
    is_limit = limit is None or (isinstance(limit, int) and not isinstance(limit, bool) and limit > 0)
    if not is_limit or not isinstance(after, (str, type(None))):
        raise files.UnreadableError("array.json is damaged")
    try:
        return HandedArray(sweep, number, [checked_run_id(each) for each in cells], limit, after)
    except AgentError as error:
        raise files.UnreadableError("array.json is damaged: %s" % error)


def write(array: HandedArray, job_files: Dict[str, str]) -> None:
    """Write an array's files: those for the batch system first, `array.json` last.

    Each job finds its run by its index: in `cells.txt`, and by the link of this name, below which its log is written.
    """
    files.make_folders(os.path.dirname(os.path.dirname(array.file())))
    os.mkdir(os.path.dirname(array.file()), 0o700)  # of two that decide at once, where there are no locks, one fails
    for name, text in job_files.items():
        files.write_bytes(array.file(name), text.encode("utf-8"), 0o600)
    files.write_bytes(array.file("cells.txt"), "".join("%s\n" % each for each in array.run_ids).encode("ascii"), 0o600)
    for index, run_id in enumerate(array.run_ids):
        os.symlink(os.path.join("..", "..", "..", "..", "runs", run_id), array.file(str(index)))
    told = {"format": 1, "cells": array.run_ids, "limit": array.limit, "after": array.after, "time": time.time()}
    files.write_json(array.file("array.json"), told)


def forget(array: HandedArray) -> None:
    """Take a decision back: the batch system refused the array."""
    for name in ("array.json", "asked.json"):
        files.remove(array.file(name))


def is_all_stopped(sweep: SweepPaths, number: int) -> bool:
    """Return whether no run of an array needs its job there any more: each was stopped, has ended, or was submitted again."""
    try:
        array = read(sweep, number)
        return array is not None and all(_is_stopped(RunPaths(sweep.root, run_id)) for run_id in array.run_ids)
    except (files.UnreadableError, OSError):
        return False


def _is_stopped(paths: RunPaths) -> bool:
    if is_gone(paths) or (paths.newest_submission() or 0) > 1:
        return True
    stop_request = read_stop_request(paths)
    if stop_request is not None and concerns(stop_request, 1):
        return True
    return (files.read_json(paths.state) or {}).get("state") in ENDED


def read_id(sweep: SweepPaths, number: int) -> Optional[str]:
    """Return the batch system's id of an array; None while it is not known.

    Raises:
        files.UnreadableError: The record is damaged.
    """
    job = files.read_json(sweep.array(number, "job.json"))
    return None if job is None else str(job.get("job_id"))


def find_id(sweep: SweepPaths, number: int, kind: str) -> Optional[str]:
    """Return the batch system's id of an array, which is asked if the id is not known here; None if there is no such array.

    Raises:
        EngineError: It is impossible to know, for now or for good.
        files.UnreadableError: A record is damaged.
    """
    known = read_id(sweep, number)
    if known is not None or not os.path.exists(sweep.array(number, "asked.json")):
        return known
    array = read(sweep, number)
    if array is None:
        raise EngineError("the record of an array that %s was asked for is missing: %s" % (kind, sweep.array(number)))
    found: Optional[str] = engine.find(kind).look_up_many(array)
    return found


def share(sizes: Sequence[int], limit: Optional[int]) -> List[Tuple[Optional[int], Optional[int]]]:
    """Divide a limit among arrays, so that all of them together keep it.

    Args:
        sizes: How many jobs each array has.
        limit: How many jobs of all arrays run at once; None for no limit.

    Returns:
        For each array its limit, and the place of the array that must have ended before it starts, or None.
    """
    if limit is None or limit >= sum(sizes):
        return [(None, None) for _ in sizes]
    lanes = min(limit, len(sizes))
    return [
        (
            limit // lanes + (1 if place % lanes < limit % lanes else 0),
            place - lanes if place >= lanes else None,
        )
        for place in range(len(sizes))
    ]
