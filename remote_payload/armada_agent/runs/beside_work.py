"""Find what a job put into its run's folder beside `work/`: a script knows that folder as `$ARMADA_RUN_DIR`.

Nothing there comes home but what armada itself writes. Hidden names are those of locks, temporary files and caches.
"""

import os
import re
from typing import List

from armada_agent.foundation import files
from armada_agent.paths import RunPaths, list_folder

_ANY = RunPaths("", "any")
_OURS = frozenset(os.path.basename(path) for path in vars(_ANY).values() if os.path.dirname(path) == _ANY.folder).union(
    ("submissions", "attempts", "launch", "merged", "samples.jsonl")
)
_OF_TASKS = frozenset(
    ("checkpoints", "model", "teacher", "prepared", "report.json", "result.json", "bench", "bench-turns")
)
"""What armada's own tasks write there. A script's folder of such a name is its own."""
_HEARTBEAT = re.compile(r"heartbeat-[0-9]+\.json")


def find(paths: RunPaths) -> List[str]:
    """Return the names in a run's folder that are not armada's, sorted.

    Raises:
        OSError: The folder cannot be read.
    """
    of_task = _is_of_armadas_own_task(paths)
    return [name for name in list_folder(paths.folder) if not is_ours(name, of_task)]


def is_ours(name: str, of_task: bool) -> bool:
    """Return whether armada, or one of its own tasks, gives a file or folder in a run's folder this name."""
    if name in _OURS or name.startswith(".") or _HEARTBEAT.fullmatch(name):
        return True
    return of_task and name in _OF_TASKS


def _is_of_armadas_own_task(paths: RunPaths) -> bool:
    try:
        spec = files.read_json(paths.spec)
    except files.UnreadableError:
        return False
    return isinstance(spec, dict) and spec.get("task") not in (None, "script", "command")
