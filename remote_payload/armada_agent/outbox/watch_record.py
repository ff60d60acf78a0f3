"""Read harvest.json: which checkpoints of a job that announces none were taken. The job could have changed it."""

import os
import re
from typing import Any, Dict, List, Optional

from armada_agent.foundation import files
from armada_agent.foundation.log import say
from armada_agent.outbox.inventory import is_facts, leads_outside
from armada_agent.paths import ANNOUNCED, RunPaths

_RECORD_LIMIT = 64 * 1024 * 1024


def read_record(paths: RunPaths) -> Dict[str, Any]:
    """Read the valid part of the record; an empty one if it is missing or damaged."""
    empty = {
        "count": 0,
        "copies": False,
        "taken": [],
        "left": {},
        "came": {},
        "origins": {},
        "outside": [],
        "failed": {},
    }  # type: Dict[str, Any]
    try:
        kept = files.read_json(paths.checkpoint_watch, _RECORD_LIMIT) or {}
    except files.UnreadableError as error:
        say(str(error))
        return empty
    record = {name: kept[name] if isinstance(kept.get(name), type(empty[name])) else empty[name] for name in empty}
    record["taken"] = [
        dict(entry, digest=entry.get("digest"), seen=entry.get("seen")) for entry in record["taken"] if _is_taken(entry)
    ]
    record["origins"] = {name: known for name, known in record["origins"].items() if _is_origin(known)}
    record["failed"] = {
        path: known for path, known in record["failed"].items() if _is_inner(path) and _is_failure(known)
    }
    record["outside"] = [path for path in record["outside"] if _is_inner(path)]
    return record


def place_behind(taken: List[Dict[str, Any]], former: List[Dict[str, Any]]) -> int:
    """Return the place behind the last of these entries, or at the end."""
    places = [number for number, each in enumerate(taken) if each in former]
    return max(places) + 1 if places else len(taken)


def last_whole(paths: RunPaths) -> Optional[int]:
    """Return the highest step that was taken and hashed, even if home has had the checkpoint deleted here."""
    return max((entry["step"] for entry in read_record(paths)["taken"] if entry["digest"]), default=None)


def find_outside(paths: RunPaths) -> List[str]:
    """List the checkpoints, and links in checkpoints, that lead out of the run's work folder now, relative to it."""
    if not os.path.exists(paths.checkpoint_watch):
        return []
    root = os.path.realpath(paths.work)
    recorded = read_record(paths)["outside"]
    return [path for path in recorded if leads_outside(os.path.join(paths.work, path), root)]


def count_failed(paths: RunPaths) -> int:
    """Count the checkpoints that could not be taken, although waiting for room was not the problem, and that are still there."""
    if not os.path.exists(paths.checkpoint_watch):
        return 0
    failed = read_record(paths)["failed"]
    return sum(1 for path in failed if os.path.lexists(os.path.join(paths.work, path)))


def is_damaged(paths: RunPaths) -> bool:
    try:
        files.read_json(paths.checkpoint_watch, _RECORD_LIMIT)
    except files.UnreadableError:
        return True
    return False


def _is_inner(path: Any) -> bool:
    """Return whether a value can be a path below the work folder."""
    return isinstance(path, str) and "\0" not in path and not os.path.isabs(path) and ".." not in path.split("/")


def _is_origin(value: Any) -> bool:
    """Return whether a value can be in a manifest as an attempt and a unix time."""
    if not isinstance(value, list) or len(value) != 2 or any(isinstance(each, bool) for each in value):
        return False
    attempt, moment = value
    return (
        isinstance(attempt, int)
        and isinstance(moment, (int, float))
        and 0 <= attempt < 1 << 31
        and 0 <= moment < 1 << 53
    )


def _is_failure(value: Any) -> bool:
    """Return whether a value is a signature and a unix time or None."""
    if not isinstance(value, list) or len(value) != 2 or isinstance(value[1], bool):
        return False
    return isinstance(value[0], str) and (value[1] is None or isinstance(value[1], (int, float)))


def _is_taken(entry: Any) -> bool:
    """Return whether an entry of the record is valid: the files that it names are read, and deleted if they were overwritten."""
    if not isinstance(entry, dict):
        return False
    path, folder, digest, inventory = (entry.get(name) for name in ("path", "folder", "digest", "inventory"))
    return (
        _is_inner(path)
        and isinstance(folder, str)
        and folder.startswith(ANNOUNCED)
        and "/" not in folder
        and (digest is None or (isinstance(digest, str) and re.fullmatch("[0-9a-f]{64}", digest) is not None))
        and isinstance(entry.get("step"), int)
        and isinstance(entry.get("signature"), str)
        and isinstance(entry.get("is_file"), bool)
        and all(_is_inventory(each) for each in (inventory, entry.get("seen")))
    )


def _is_inventory(value: Any) -> bool:
    return value is None or (isinstance(value, dict) and all(map(is_facts, value.values())))
