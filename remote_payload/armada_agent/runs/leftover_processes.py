"""Find processes of a run whose folder was deleted while it ran. They continue until somebody stops them."""

import os
import subprocess
import sys
import time
from typing import Any, Callable, Dict, List, Optional, Tuple

from armada_agent.host import files, mounts, process_identity, processes
from armada_agent.paths import RunPaths

_TICK_S = 1.0
_LAST_WORDS_S = 10.0


class Place:
    """Whether a run's folder still is the one that its supervisor began in.

    Somebody may have deleted it, or only what was in it (`rm -r` while the job writes); a job, or another supervisor of the
    same run, may have made it anew. Under a file system that was mounted again it has another number, and is the same.
    """

    def __init__(self, paths: RunPaths, submission: int) -> None:
        self._paths = paths
        self._submission = submission
        self._begun_in = _number(paths.folder) if os.path.exists(paths.spec) else None
        self._looked_at = 0.0
        self._is_ours = True
        self._is_anothers: Callable[[], bool] = lambda: False

    def until(self, is_anothers: Callable[[], bool]) -> None:
        """Have it be ours only until `is_anothers` says that somebody else writes there now."""
        self._is_anothers = is_anothers

    def is_ours(self, at_once: bool = False) -> bool:
        """Tell whether what we write there is written for anybody; looks once a second at most, unless asked to `at_once`."""
        now = time.monotonic()
        if at_once or now - self._looked_at > _TICK_S:
            self._looked_at = now
            self._is_ours = not self._is_anothers() and (self._begun_in is None or self._look())
        return self._is_ours

    def _look(self) -> bool:
        if _number(self._paths.folder) == self._begun_in:
            return not is_gone(self._paths)
        try:
            job = files.read_json(self._paths.submission(self._submission, "job.json"))
            successor = files.read_json(self._paths.submission(self._submission, "successor.json"))
        except files.UnreadableError:
            return False
        own = process_identity.identify()
        return job is not None and (successor or job).get("supervisor", own) == own


def is_gone(paths: RunPaths) -> bool:
    """Tell whether nothing of a run is on the host: no folder, or one that its job or its supervisor made again."""
    if not os.path.isdir(paths.folder):
        return True
    return not os.path.lexists(paths.spec) and not paths.submissions() and not paths.checkpoints()


def find(paths: RunPaths, table: Optional[List[processes.Process]] = None) -> List[processes.Process]:
    """Find the processes of a run, its supervisor among them, by what their environments say."""
    table = processes.scan() if table is None else table
    return processes.members(paths, None, table) + _supervisors(paths, table)


def describe(paths: RunPaths, table: List[processes.Process]) -> Dict[str, Any]:
    """Say how many processes live here; on a shared file system there may be others, on other machines."""
    return {"processes": len(find(paths, table)), "is_shared": mounts.is_shared(mounts.find(paths.root))}


def start_ending(agent_path: str, paths: RunPaths, grace_s: float) -> None:
    """Start a process that ends them all; there is no folder for it to start in, nor to write a log into."""
    argv = [sys.executable or "python3", "-I", agent_path, "end", "--root", paths.root, "--run", paths.run_id]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ARMADA_")}
    first = subprocess.Popen(
        argv + ["--submission", "0", "--grace", str(grace_s)],
        env=environment,
        cwd="/",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    first.wait()  # it forks and ends at once


def end(root: str, run_id: str, grace_s: float) -> int:
    """End every process of a run whose folder is gone, its supervisor last."""
    if os.fork():
        os._exit(0)
    paths = RunPaths(root, run_id)
    processes.sweep(lambda: processes.members(paths), grace_s, _ignore)
    processes.sweep(lambda: _supervisors(paths, processes.scan()), _LAST_WORDS_S, _ignore)
    return 0


def _supervisors(paths: RunPaths, table: List[processes.Process]) -> List[processes.Process]:
    root = os.path.realpath(paths.root)
    return [
        process
        for process in table
        if process.supervises == paths.run_id and (process.root is None or os.path.realpath(process.root) == root)
    ]


def _ignore(_pids: List[int]) -> None:
    """What SIGKILL does not end, the next look still shows."""


def _number(folder: str) -> Optional[Tuple[int, int]]:
    try:
        status = os.stat(folder)
    except OSError:
        return None
    return status.st_dev, status.st_ino
