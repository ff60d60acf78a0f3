"""Start processes that outlive the connection and its SSH session."""

import errno
import os
import subprocess
import sys
from typing import BinaryIO, Dict, List, Mapping, Optional

from armada_agent.host import job_variables, setup_lines
from armada_agent.host.processes import ROOT_MARKER, SUBMISSION_MARKER, SUPERVISOR_MARKER
from armada_agent.paths import RunPaths, SweepPaths


def start(
    command: str, agent_path: str, paths: RunPaths, submission: int, exported: Optional[Mapping[str, str]] = None
) -> None:
    """Run one of the entry points in `__main__` in the background. The caller waits only for the fork.

    Args:
        command: The entry point.
        agent_path: The agent's program.
        paths: The run's files.
        submission: The submission's number.
        exported: What the host's `setup:` exports; by default what this process's own setup lines exported.
    """
    environment = job_variables.of_run(paths, setup_lines.exported() if exported is None else exported)
    environment.update({SUPERVISOR_MARKER: paths.run_id, ROOT_MARKER: paths.root})
    if command == "supervise":
        environment[SUBMISSION_MARKER] = str(submission)
    words = [command, "--root", paths.root, "--run", paths.run_id, "--submission", str(submission)]
    _run(agent_path, words, environment, paths.folder, paths.supervisor_log)


def start_dispatcher(agent_path: str, sweep: SweepPaths) -> None:
    """Run the dispatcher of a sweep in the background, with the variables that its runs may see."""
    words = ["dispatch", "--root", sweep.root, "--sweep", sweep.sweep]
    environment = dict(job_variables.new_base(), **{ROOT_MARKER: sweep.root})
    _run(agent_path, words, environment, sweep.folder, sweep.log)


def _run(agent_path: str, words: List[str], environment: Dict[str, str], folder: str, log_file: str) -> None:
    python = sys.executable or "python3"  # empty after an unusual argv[0]
    with _open_log(log_file) as log:
        first = subprocess.Popen(
            [python, "-I", agent_path] + words,
            env=environment,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=log,
            start_new_session=True,
        )
    first.wait()  # it forks and exits immediately


def _open_log(path: str) -> BinaryIO:
    """Open a log for writing, or the null device if the path is not a regular file: opening a pipe would block."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        descriptor = os.open(path, flags, 0o666)
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.ENXIO, errno.EISDIR):
            raise
        descriptor = os.open(os.devnull, os.O_WRONLY)
    return os.fdopen(descriptor, "wb")
