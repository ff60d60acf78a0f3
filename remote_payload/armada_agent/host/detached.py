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
    """Run one of the entry points in `__main__`. It forks, so the caller waits only for the fork."""
    python = sys.executable or "python3"  # empty where argv[0] was odd
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
    first.wait()  # it forks and ends at once


def _open_log(paths: RunPaths) -> BinaryIO:
    """Open supervisor.log to be written on, or nothing where something else lies in its place: a pipe is not waited for."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        descriptor = os.open(paths.supervisor_log, flags, 0o666)
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.ENXIO, errno.EISDIR):
            raise
        descriptor = os.open(os.devnull, os.O_WRONLY)
    return os.fdopen(descriptor, "wb")
