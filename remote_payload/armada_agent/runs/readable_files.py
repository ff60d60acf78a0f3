"""Open the files of a run's folder that may be sent home, without following links."""

import errno
import os
import stat
from typing import Set

from armada_agent.errors import AgentError
from armada_agent.paths import RunPaths

READABLE: Set[str] = {
    "outbox",
    "work",
    "wandb",
    "merged",
    "left",
    "launch",
    "output.log",
    "metrics.jsonl",
    "telemetry.jsonl",
    "events.jsonl",
    "state.json",
    "spec.json",
    "samples.jsonl",
}
"""The parts of a run's folder that may be sent. Never secrets.env, never files under temporary names."""


def open_file(paths: RunPaths, path: object) -> int:
    """Open a file below a run's folder without following links.

    Raises:
        AgentError: `not_found`, `bad_request`.
    """
    if not isinstance(path, str) or "\0" in path:
        raise AgentError("bad_request", "`path` must be a path")
    parts = path.split("/")
    if any(part in ("", ".", "..") for part in parts) or parts[0] not in READABLE:
        raise AgentError("bad_request", "%.200r is not a file of a run that armada may transfer" % path)
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    current = -1
    try:
        current = os.open(paths.folder, os.O_RDONLY | os.O_DIRECTORY)
        for index, part in enumerate(parts):
            above, is_last = current, index == len(parts) - 1
            current = os.open(os.fsencode(part), flags | (0 if is_last else os.O_DIRECTORY), dir_fd=above)
            os.close(above)
        if not _is_regular(current):
            raise AgentError("not_found", "%.200r is not a regular file" % path)
        found, current = current, -1
        return found
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
            raise AgentError("not_found", "run %s has no file %.200r here" % (paths.run_id, path))
        raise
    finally:
        if current >= 0:
            os.close(current)


def _is_regular(descriptor: int) -> bool:
    return stat.S_ISREG(os.fstat(descriptor).st_mode)
