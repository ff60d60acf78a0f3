"""Find processes of a run whose folder was deleted while it ran. They run until a user stops them."""

import contextlib
import os
import shutil
import subprocess
import sys
from typing import Any, Dict, List, Optional, Set

from armada_agent.errors import AgentError
from armada_agent.host import containers, mounts, processes
from armada_agent.paths import RunPaths

_LAST_WORDS_S = 10.0


def find(paths: RunPaths, table: Optional[List[processes.Process]] = None) -> List[processes.Process]:
    """Find the processes of a run, including its supervisor, by their environments."""
    table = processes.scan() if table is None else table
    return processes.members(paths, None, table) + supervisors(paths, table)


def of_root(root: str, table: List[processes.Process], or_unmarked: bool) -> List[RunPaths]:
    """Return the runs of a root that living processes name. Any program can set the variables to anything.

    Args:
        root: The root.
        table: A scan.
        or_unmarked: Also those of processes that name no root, as jobs of the first release.
    """
    here = os.path.realpath(root)
    named: Set[str] = set()
    for process in table:
        if (process.root is None and or_unmarked) or (
            process.root is not None and os.path.realpath(process.root) == here
        ):
            named.update(name for name in (process.run_id, process.supervises) if name is not None)
    found = []
    for name in sorted(named):
        with contextlib.suppress(AgentError):  # no name of a run: armada did not set it
            found.append(RunPaths(root, name))
    return found


def describe(paths: RunPaths, table: List[processes.Process]) -> Dict[str, Any]:
    """Count the run's processes on this machine, and name the newest attempt and submission that they belong to.

    On a shared file system there may be others on other machines. 0: they name none.
    """
    found = find(paths, table)
    return {
        "processes": len(found),
        "is_shared": mounts.is_shared(mounts.find(paths.root)),
        "attempt": max([process.attempt for process in found], default=0),
        "submission": max([process.submission for process in found], default=0),
    }


def start_ending(agent_path: str, paths: RunPaths, grace_s: float) -> None:
    """Start a process that ends all of them. It has no folder to start in or to write a log to."""
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
    first.wait()  # it forks and exits immediately


def end(root: str, run_id: str, grace_s: float) -> int:
    """End every process of a run whose folder was deleted, its supervisor last."""
    if os.fork():
        os._exit(0)
    paths = RunPaths(root, run_id)
    processes.sweep(lambda: processes.members(paths), grace_s, _ignore)
    for program in filter(None, map(shutil.which, containers.TOOLS)):
        containers.remove(program, containers.name_of(paths))  # what recorded its tool is gone
    processes.sweep(lambda: supervisors(paths, processes.scan()), _LAST_WORDS_S, _ignore)
    return 0


def supervisors(paths: RunPaths, table: List[processes.Process]) -> List[processes.Process]:
    """Find a run's supervisors, and processes that clear up or look after it in their place."""
    root = os.path.realpath(paths.root)
    return [
        process
        for process in table
        if process.supervises == paths.run_id and (process.root is None or os.path.realpath(process.root) == root)
    ]


def _ignore(_pids: List[int]) -> None:
    """Do nothing: the next observation still shows the processes that SIGKILL did not end."""
