"""Receive contents as one tar stream after a request's line, for hosts without a usable rsync.

An arrived file is not trusted: `content.publish` checks every hash, as after rsync. What a broken connection left is
kept, and home sends only the rest of it: a member with an `ARMADA.offset` is appended to the file's end.
"""

import contextlib
import os
import stat
import tarfile
import threading
from typing import Any, BinaryIO, Dict, Iterator, List

from armada_agent.errors import AgentError
from armada_agent.foundation import files
from armada_agent.foundation.session import Call
from armada_agent.provision import content

OFFSET = "ARMADA.offset"
_PIECE = 1024 * 1024
_MOST_LISTED = 50000  # an answer is one line; files that are not listed are sent again


def list_staged(call: Call, params: Dict[str, Any]) -> Dict[str, Any]:
    """Return the paths and sizes in bytes of a content's files that an earlier transfer left here."""
    _, staging = content.places(call.root, params)
    found: List[List[Any]] = []
    for parent, _, names in os.walk(staging):
        for name in sorted(names):
            path = os.path.join(parent, name)
            status = os.lstat(path)
            if stat.S_ISREG(status.st_mode) and len(found) < _MOST_LISTED:
                relative = os.path.relpath(path, staging)
                found.append([os.fsencode(relative).decode("utf-8", "replace"), status.st_size])
    return {"files": found}


def receive(call: Call, params: Dict[str, Any]) -> Dict[str, Any]:
    """Read a tar stream from the connection's input into a content's staging folder. The connection takes no requests after it.

    Raises:
        AgentError: `bad_request`: a member is not a regular file below the folder, or the data is not a tar stream.
    """
    require_main_thread()
    path, staging = content.places(call.root, params)
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    with files.locked(os.path.join(os.path.dirname(path), ".lock-%s" % params["sha"])):
        return {"files": take_all(call, staging)}


def take_all(call: Call, staging: str) -> int:
    """Read a tar stream from the connection's input into a folder; return how many files it had.

    Raises:
        AgentError: As in `receive`.
    """
    count = 0
    os.makedirs(staging, mode=0o700, exist_ok=True)
    try:
        with tarfile.open(fileobj=call.session.input, mode="r|", errors="surrogateescape") as stream:
            for member in stream:
                _take(stream, member, staging)
                count += 1
    except tarfile.TarError as error:
        raise AgentError("bad_request", "the data is not a tar stream, or ends too early: %s" % error)
    return count


def require_main_thread() -> None:
    """Refuse a request without data after it.

    Raises:
        AgentError: `bad_request`.
    """
    if threading.current_thread() is not threading.main_thread():
        raise AgentError("bad_request", "no data follows this request")


def _take(stream: tarfile.TarFile, member: tarfile.TarInfo, staging: str) -> None:
    name = member.name
    if not member.isreg() or not content.is_safe(name):
        raise AgentError("bad_request", "%.200r is not a regular file below a folder" % member.name)
    offset = member.pax_headers.get(OFFSET, "0")
    if not offset.isdigit():
        raise AgentError("bad_request", "%.40r is not an offset" % offset)
    source = stream.extractfile(member)
    if source is None:
        raise AgentError("bad_request", "%.200r has no content" % member.name)
    with _opened(staging, name) as target:
        _write(source, target, int(offset), member.size)


def _write(source: Any, target: BinaryIO, offset: int, size: int) -> None:
    if os.fstat(target.fileno()).st_size < offset:
        raise AgentError("conflict", "the staged file has become shorter in the meantime", "send it again")
    target.seek(offset)
    target.truncate()
    done = 0
    while done < size:
        piece = source.read(min(_PIECE, size - done))
        if not piece:
            raise tarfile.ReadError("unexpected end of data")
        target.write(piece)
        done += len(piece)


@contextlib.contextmanager
def _opened(staging: str, name: str) -> Iterator[BinaryIO]:
    """Open a file below the folder for writing, and create the folders on its path. Follow no link."""
    parts = [part.encode("utf-8") for part in name.split("/")]  # independent of the locale
    current = os.open(staging, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for part in parts[:-1]:
            with contextlib.suppress(FileExistsError):
                os.mkdir(part, 0o700, dir_fd=current)
            above, current = current, os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=current)
            os.close(above)
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(parts[-1], flags, 0o600, dir_fd=current)
    finally:
        os.close(current)
    with os.fdopen(descriptor, "r+b") as target:
        yield target
