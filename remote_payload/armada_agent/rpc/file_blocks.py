"""Send files of runs in blocks over channels of their own: the bytes follow the answer's line.

Home asks for many blocks at once on several channels, so one large file arrives over all of them.
"""

import errno
import os
import stat
from typing import Any, Dict, Set

from armada_agent.errors import AgentError
from armada_agent.paths import RunPaths
from armada_agent.rpc import parameters
from armada_agent.rpc.session import Call

LONGEST_BLOCK = 64 * 1024 * 1024
_PIECE = 256 * 1024
READABLE: Set[str] = {
    "outbox",
    "work",
    "wandb",
    "merged",
    "launch",
    "output.log",
    "metrics.jsonl",
    "telemetry.jsonl",
    "events.jsonl",
    "state.json",
    "spec.json",
}
"""What of a run's folder may travel: never secrets.env, never what is being written under a temporary name."""


def read(call: Call, params: Dict[str, Any]) -> None:
    """Answer with `{"size_bytes": n}` and, after that line, exactly n bytes of a regular file.

    Raises:
        AgentError: `not_found`; `bad_request` for a path that may not travel or reaches through a link.
    """
    offset = parameters.integer(params, "offset")
    length = min(LONGEST_BLOCK, parameters.integer(params, "length"))
    paths = RunPaths(call.root, params.get("run_id"))
    descriptor = open_file(paths, params.get("path"))
    try:
        size = max(0, min(length, os.fstat(descriptor).st_size - offset))
        call.answer({"size_bytes": size}, lambda output: _copy(descriptor, output, offset, size))
    finally:
        os.close(descriptor)


def open_file(paths: RunPaths, path: object) -> int:
    """Open a file below a run's folder, following no link on the way.

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


def _copy(source: int, output: int, offset: int, size: int) -> None:
    """Put `size` bytes into the output whatever happens to the file: home counts them, and checks them afterwards."""
    done = 0
    while done < size:
        try:
            sent = os.sendfile(output, source, offset + done, size - done)
        except BrokenPipeError:
            raise
        except OSError:
            break  # not between these kinds of files, or a disk that fails: the slow way tells which
        if sent == 0:
            break
        done += sent
    while done < size:
        view = memoryview(_piece(source, offset + done, min(_PIECE, size - done)))
        while view:
            sent = os.write(output, view)
            done += sent
            view = view[sent:]


def _piece(source: int, offset: int, size: int) -> bytes:
    try:
        found = os.pread(source, size, offset)
    except OSError:
        found = b""
    return found or b"\0" * size  # truncated meanwhile, or unreadable: home sees another SHA-256 than it wants
