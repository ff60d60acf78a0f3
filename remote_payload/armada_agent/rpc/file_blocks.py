"""Send files of runs in blocks. The bytes follow the answer's line.

Home requests many blocks at once on several channels, so that one large file arrives over all of them.
"""

import os
from typing import Any, Dict

from armada_agent.foundation import parameters
from armada_agent.foundation.session import Call
from armada_agent.paths import RunPaths
from armada_agent.runs import readable_files

LONGEST_BLOCK = 64 * 1024 * 1024
_PIECE = 256 * 1024


def read(call: Call, params: Dict[str, Any]) -> None:
    """Answer with `{"size_bytes": n}` and, after that line, exactly n bytes of a regular file.

    Raises:
        AgentError: `not_found`; `bad_request`: the file may not be sent, or its path contains a link.
    """
    offset = parameters.integer(params, "offset")
    length = min(LONGEST_BLOCK, parameters.integer(params, "length"))
    paths = RunPaths(call.root, params.get("run_id"))
    descriptor = readable_files.open_file(paths, params.get("path"))
    try:
        size = max(0, min(length, os.fstat(descriptor).st_size - offset))
        call.answer({"size_bytes": size}, lambda output: copy(descriptor, output, offset, size))
    finally:
        os.close(descriptor)


def copy(source: int, output: int, offset: int, size: int) -> None:
    """Write exactly `size` bytes to the output whatever happens to the file: home counts the bytes and verifies them afterwards."""
    done = 0
    while done < size:
        try:
            sent = os.sendfile(output, source, offset + done, size - done)
        except BrokenPipeError:
            raise
        except OSError:
            break  # sendfile does not work for these files, or the disk fails: the copy below shows which
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
    return found or b"\0" * size  # truncated or unreadable by now; home sees a SHA-256 that does not match
