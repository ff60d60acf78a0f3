"""Decide whether a run's supervisor is alive, as far as this machine can know: first by its identity, then by its lock.

| the record is from                           | lock | verdict | rebooted |
|----------------------------------------------|------|---------|----------|
| this boot, this container                    |      | by pid  | no       |
| an earlier boot, or a restarted container    | free | dead    | yes      |
| another host name, on a disk of this machine | free | dead    | yes      |
| another host name, on a shared file system   | free | unknown | no       |
| another boot, container or name              | held | unknown | no       |

The lock distinguishes two running containers with one name and one volume. It also shows that another host name is this
machine, renamed at a restart, and not a different machine. A free lock on a shared file system proves nothing: many such
file systems lock only within one machine.
"""

from typing import Any, Tuple

from armada_agent.foundation import files, process_identity
from armada_agent.host import mounts
from armada_agent.paths import RunPaths


def judge_supervisor(paths: RunPaths, recorded: Any) -> Tuple[str, bool]:
    """Return whether a run's recorded supervisor is alive (see `process_identity.judge`), and whether its machine has restarted."""
    place = process_identity.compare(recorded)
    if place in ("here", "damaged"):
        return process_identity.judge(recorded), False
    if files.is_locked(paths.supervisor_lock):
        return "unknown", False
    if place == "elsewhere" and mounts.is_shared(mounts.find(paths.root)):
        return "unknown", False
    return "dead", True
