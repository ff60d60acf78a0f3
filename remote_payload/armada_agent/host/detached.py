"""Start processes that outlive the connection and its SSH session."""

import errno
import os
import subprocess
import sys
from typing import BinaryIO

from armada_agent.host import job_variables, setup_lines
from armada_agent.host.processes import ROOT_MARKER, SUPERVISOR_MARKER
from armada_agent.paths import RunPaths


def start(command: str, agent_path: str, paths: RunPaths, submission: int) -> None:
    """Run one of the entry points in `__main__` in the background. The caller waits only for the fork."""
    python = sys.executable or "python3"  # empty after an unusual argv[0]
    argv = [python, "-I", agent_path, command, "--root", paths.root, "--run", paths.run_id]
    environment = job_variables.of_run(paths, setup_lines.exported())
    environment.update({SUPERVISOR_MARKER: paths.run_id, ROOT_MARKER: paths.root})
    with _open_log(paths) as log:
        first = subprocess.Popen(
            argv + ["--submission", str(submission)],
            env=environment,
            cwd=paths.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=log,
            start_new_session=True,
        )
    first.wait()  # it forks and exits immediately


def _open_log(paths: RunPaths) -> BinaryIO:
    """Open supervisor.log for writing, or the null device if the path is not a regular file: opening a pipe would block."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        descriptor = os.open(paths.supervisor_log, flags, 0o666)
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.ENXIO, errno.EISDIR):
            raise
        descriptor = os.open(os.devnull, os.O_WRONLY)
    return os.fdopen(descriptor, "wb")
