"""Decide whether a run's supervisor is alive, as far as this machine can know: by its identity, then by its lock.

| its record is of                             | its lock is | verdict | rebooted |
|----------------------------------------------|-------------|---------|----------|
| this boot, this container                    |             | by pid  | no       |
| an earlier boot, or a container started anew | free        | dead    | yes      |
| another host name, on a disk of this machine | free        | dead    | yes      |
| another host name, on a shared file system   | free        | unknown | no       |
| another boot, container or name              | held        | unknown | no       |

The lock tells two containers of one name and one volume apart (a supervisor lives in the other), and a machine that got
another name while it was restarted from a stranger. A free lock on a shared file system proves nothing: many lock on one
machine alone.
"""

from typing import Any, Tuple

from armada_agent.foundation import files, process_identity
from armada_agent.host import mounts
from armada_agent.paths import RunPaths


def judge_supervisor(paths: RunPaths, recorded: Any) -> Tuple[str, bool]:
    """Say whether the recorded supervisor of a run lives (see `process_identity.judge`), and whether its place was started anew."""
    place = process_identity.compare(recorded)
    if place in ("here", "damaged"):
        return process_identity.judge(recorded), False
    if files.is_locked(paths.supervisor_lock):
        return "unknown", False
    if place == "elsewhere" and mounts.is_shared(mounts.find(paths.root)):
        return "unknown", False
    return "dead", True
