"""Judge whether a job overwrote a checkpoint of the outbox in place, which consists of hard links to the job's files.

| a linked file of the checkpoint                               | the checkpoint               |
|---------------------------------------------------------------|------------------------------|
| has the size and the time that it had                         | stays                        |
| has another time, and the bytes that its manifest names       | stays: it was touched only   |
| has another time, and it is not hashed yet, or cannot be read | is withdrawn                 |
| has another size, or other bytes                              | is withdrawn                 |
| is shorter, and has the time that it had                      | is withdrawn: a power cut    |
"""

import hashlib
from typing import Any, Dict, List

from armada_agent.foundation import files
from armada_agent.outbox.inventory import Inventory, Survey
from armada_agent.outbox.listing import MANIFEST, MANIFEST_LIMIT
from armada_agent.paths import RunPaths

_BLOCK = 1024 * 1024


def find_changed(then: Inventory, now: Inventory) -> List[str]:
    """List the files that have the inode of the linked one, and another size or time."""
    return [
        name
        for name, facts in then.items()
        if name in now and now[name][0] == facts[0] and tuple(now[name]) != tuple(facts)
    ]


def was_cut(then: Inventory, now: Inventory) -> bool:
    """Return whether no job did that: what changed is shorter, and has the time that it had."""
    return all(now[name][1] < then[name][1] and now[name][2] == then[name][2] for name in find_changed(then, now))


def was_only_touched(paths: RunPaths, entry: Dict[str, Any], survey: Survey) -> bool:
    """Return whether the changed files of a checkpoint have the bytes of its manifest; the record then gets their new times.

    Args:
        paths: The run's files.
        entry: What the watch's record says of the checkpoint.
        survey: Its files before this is asked: what changes later is seen the next time.
    """
    then, now = entry["inventory"], survey.inventory
    changed = find_changed(then, now)
    if entry["digest"] is None or any(now[name][1] != then[name][1] for name in changed):
        return False
    try:
        manifest = files.read_json(paths.checkpoint(entry["digest"], MANIFEST), MANIFEST_LIMIT) or {}
        told = {each["path"]: each["sha256"] for each in manifest["files"]}
        if any(_hash(paths.checkpoint(entry["digest"], name)) != told[name] for name in changed):
            return False
    except (OSError, files.UnreadableError, KeyError, TypeError):
        return False
    entry["inventory"] = {name: now[name] if name in changed else tuple(facts) for name, facts in then.items()}
    entry["seen"] = entry["inventory"]
    if entry["inventory"] == now:  # else another file of it is a new one, and it is taken again
        entry["signature"] = survey.signature
    return True


def _hash(path: str) -> str:
    sha256 = hashlib.sha256()
    with files.open_regular(path) as stream:
        for block in iter(lambda: stream.read(_BLOCK), b""):
            sha256.update(block)
    return sha256.hexdigest()
