"""Read and write files so that they survive crashes and full disks: atomic JSON, logs of whole lines, locks."""

import contextlib
import errno
import fcntl
import itertools
import json
import os
import re
import stat
import time
from typing import Any, BinaryIO, Callable, Dict, Iterable, Iterator, Optional, Tuple

from armada_agent.errors import is_disk_full

JSON_LIMIT = 8 * 1024 * 1024
LINES_LIMIT = 65536
_LONGEST_LINE = 16 * 1024 * 1024
_DEEPEST = 100
_MOST_DIGITS = 100  # a float holds three times as many digits, so arithmetic cannot overflow
_NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS)
_AS_IT_IS = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # a job may have replaced the file by a link or a pipe
_NO_FILE = (errno.ELOOP, errno.EINVAL, errno.EISDIR, errno.ENXIO)
_counter = itertools.count()
_TEMPORARY = re.compile(r"\..+\.[0-9]+-[0-9]+\.tmp", re.DOTALL)


class UnreadableError(Exception):
    """A file exists but its content is not what it should be."""


class UnseenError(UnreadableError):
    """A file could not be read now: the system answered with an error, which says nothing about its content."""


def open_regular(path: str) -> BinaryIO:
    """Open a regular file for reading.

    A job may have replaced the file by anything. Opening a pipe, for example, would block for ever.

    Raises:
        OSError: The file is missing, or is a link, a folder, a pipe or a device.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file", path)
    return os.fdopen(descriptor, "rb")


def read_json(path: str, limit: int = JSON_LIMIT, has_measured: bool = False) -> Optional[Dict[str, Any]]:
    """Read a JSON object; return None if the file does not exist.

    Args:
        path: The file.
        limit: The most bytes that it may have.
        has_measured: Whether a job wrote numbers that it measured into it. Those that no reader accepts (NaN, infinite
            ones, ones of many digits) are then None; otherwise the file counts as unreadable.

    Raises:
        UnreadableError: The file is larger than `limit` bytes, or is not a JSON object.
        UnseenError: It cannot be read now, or is not a regular file.
    """
    name = os.path.basename(path)
    try:
        with open_regular(path) as stream:
            content = stream.read(limit + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise UnseenError("%s: %s" % (name, error))
    if len(content) > limit:
        raise UnreadableError("%s is larger than %d bytes" % (name, limit))
    try:
        value = _parse(content.decode("utf-8"), _LENIENT if has_measured else _DECODER)
    except (ValueError, RecursionError) as error:
        raise UnreadableError("%s is not JSON: %s" % (name, error))
    if not isinstance(value, dict):
        raise UnreadableError("%s is not a JSON object" % name)
    return value


def _parse(text: str, decoder: json.JSONDecoder) -> Any:
    """Parse JSON that can be written again and that every reader accepts: answers to home contain most of these records.

    Raises:
        ValueError: The text is not JSON (for `_DECODER`, NaN and infinite numbers are not), or it has deeper nesting or
            longer numbers than any record.
        RecursionError: The nesting is deeper still.
    """
    value = decoder.decode(text)
    level = [value]
    for _ in range(_DEEPEST):
        level = [
            item
            for each in level
            if isinstance(each, (dict, list))
            for item in (each.values() if isinstance(each, dict) else each)
        ]
        if not level:
            return value
    raise ValueError("nested too deep")


def _finite(word: str) -> float:
    number = float(word)
    if number - number != 0:
        raise ValueError("%.20s is not a number" % word)
    return number


def _whole(word: str) -> int:
    if len(word) > _MOST_DIGITS:
        raise ValueError("a number of %d digits" % len(word))
    return int(word)


def _or_none(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    def parse_leniently(word: str) -> Any:
        try:
            return parse(word)
        except ValueError:
            return None

    return parse_leniently


_DECODER = json.JSONDecoder(parse_constant=_finite, parse_float=_finite, parse_int=_whole)
_LENIENT = json.JSONDecoder(parse_constant=_or_none(_finite), parse_float=_or_none(_finite), parse_int=_or_none(_whole))


def temporary_name(path: str) -> str:
    """Return a hidden name next to `path` that no other process or thread uses."""
    folder, name = os.path.split(path)
    return os.path.join(folder, ".%s.%d-%d.tmp" % (name, os.getpid(), next(_counter)))


def is_temporary(name: str) -> bool:
    """Return whether a file name is one that `temporary_name` makes."""
    return _TEMPORARY.fullmatch(name) is not None


def write_bytes(path: str, content: bytes, mode: int = 0o600) -> None:
    """Write a new file durably. The file must not exist."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
    except BaseException:
        os.unlink(path)
        raise


def write_json(path: str, value: Any, mode: int = 0o600) -> None:
    """Replace a JSON file atomically and durably: a reader, also after a crash, sees the old or the new content."""
    temporary = temporary_name(path)
    write_bytes(temporary, encode(value), mode)
    try:
        os.rename(temporary, path)
    except OSError:
        os.unlink(temporary)
        raise
    fsync_folder(os.path.dirname(path))


def keep_json(path: str, value: Any) -> None:
    """Write a cache file. On a full disk the file is not written, and no error is raised."""
    try:
        write_json(path, value)
    except OSError as error:
        if not is_disk_full(error):
            raise


def replace_json(path: str, value: Any) -> None:
    """Replace a JSON file atomically but not durably: readers see whole content, but a crash may lose it."""
    temporary = temporary_name(path)
    with open(temporary, "wb") as stream:
        stream.write(encode(value))
    os.rename(temporary, path)


def link_json(path: str, value: Any) -> bool:
    """Create a JSON file that only one of several competing processes can create.

    Returns:
        True for the process that created it.
    """
    temporary = temporary_name(path)
    write_bytes(temporary, encode(value))
    try:
        try:
            os.link(temporary, path)
        except FileExistsError:
            # NFS may repeat a link request whose answer was lost. A second link then proves that this process created
            # the file.
            return os.stat(temporary).st_nlink == 2
        return True
    finally:
        os.unlink(temporary)
        fsync_folder(os.path.dirname(path))


def encode(value: Any) -> bytes:
    return (json.dumps(value, sort_keys=True, ensure_ascii=True) + "\n").encode("ascii")


def make_folders(path: str) -> None:
    """Create a folder and its missing parents durably, so that they survive a power failure."""
    missing = []
    while not os.path.isdir(path):
        missing.append(path)
        path = os.path.dirname(path)
    for folder in reversed(missing):
        os.makedirs(folder, mode=0o700, exist_ok=True)  # another process may create it first
        fsync_folder(os.path.dirname(folder))


def make_within(folder: str, *names: str) -> str:
    """Create a folder and its missing parents durably within one that exists. If that was deleted or renamed, nothing is created.

    Returns:
        The path of the innermost one.

    Raises:
        OSError: Among others FileNotFoundError, where `folder` is not there.
    """
    for name in names:
        parent, folder = folder, os.path.join(folder, name)
        try:
            os.mkdir(folder, 0o700)
        except FileExistsError:
            continue
        fsync_folder(parent)
    return folder


def fsync_folder(path: str) -> None:
    """Flush a folder, or a file, to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def append_line(path: str, value: Any) -> None:
    """Append one JSON line completely or not at all. Before that, remove a line that a full disk or a crash cut short.

    If the path is a link, a pipe or a folder, which a job may have put there, it gets another name, and the file begins
    anew: a run's end must be recorded, and never in somebody else's file.

    Raises:
        OSError: The disk is full, or refuses the file.
    """
    try:
        append_lines(path, [value])
    except OSError as error:
        if error.errno not in _NO_FILE:
            raise
        os.rename(path, "%s.set-aside-%d" % (path, time.time() * 1e6))
        append_lines(path, [value])


def append_lines(path: str, values: Iterable[Any]) -> int:
    """Append JSON lines, all or none, to a file that a job may have replaced by a link or a pipe.

    Returns:
        The new length of the file in bytes.

    Raises:
        OSError: The disk is full, or this is not a regular file.
    """
    return _append(path, b"".join(map(encode, values)), os.O_RDWR | os.O_CREAT | os.O_APPEND | _AS_IT_IS)


def _append(path: str, content: bytes, flags: int) -> int:
    descriptor = os.open(path, flags, 0o600)
    try:
        if flags & os.O_NOFOLLOW and not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", path)
        size = _drop_partial_line(descriptor)
        try:
            written = os.write(descriptor, content)
        except OSError:
            os.ftruncate(descriptor, size)
            raise
        if written < len(content):
            os.ftruncate(descriptor, size)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        return size + written
    finally:
        os.close(descriptor)


def _drop_partial_line(descriptor: int) -> int:
    size = os.fstat(descriptor).st_size
    end = size
    while end > 0:
        start = max(0, end - 4096)
        block = os.pread(descriptor, end - start, start)
        newline = block.rfind(b"\n")
        if newline >= 0:
            end = start + newline + 1
            break
        end = start
    if end < size:
        os.ftruncate(descriptor, end)
    return end


def read_lines(path: str, offset: int, limit: int = LINES_LIMIT) -> Tuple[str, int, int]:
    """Read whole lines from a byte offset.

    If the file is shorter than the offset, it was begun anew, and is read from the beginning. Lines longer than 64 KiB
    are skipped.

    Returns:
        The text, at most `limit` bytes of it; the offset where it begins; the offset of the next read.
    """
    try:
        stream = open_regular(path)
    except OSError:
        return "", offset, offset
    with stream:
        if offset > os.fstat(stream.fileno()).st_size:
            offset = 0
        stream.seek(offset)
        block = stream.read(LINES_LIMIT)
        if b"\n" not in block and len(block) == LINES_LIMIT:
            return "", offset, _after_long_line(stream, offset + LINES_LIMIT) or offset
        end = block.rfind(b"\n", 0, limit) + 1
        return block[:end].decode("utf-8", "replace"), offset, offset + end


def _after_long_line(stream: Any, position: int) -> Optional[int]:
    stop = position + _LONGEST_LINE
    while position < stop:
        block = stream.read(LINES_LIMIT)
        if not block:
            return None
        newline = block.find(b"\n")
        if newline >= 0:
            return int(position + newline + 1)
        position += len(block)
    return position


def last_line(path: str) -> str:
    """Return the last whole line of a file, or an empty string."""
    try:
        stream = open_regular(path)
    except OSError:
        return ""
    with stream:
        size = os.fstat(stream.fileno()).st_size
        stream.seek(max(0, size - LINES_LIMIT))
        lines = stream.read(LINES_LIMIT).split(b"\n")
    return lines[-2].decode("utf-8", "replace") if len(lines) > 1 else ""


def read_tail(path: str, limit: int) -> str:
    """Return the end of a text file, at most `limit` bytes, for display."""
    try:
        with open_regular(path) as stream:
            stream.seek(max(0, os.fstat(stream.fileno()).st_size - limit))
            return stream.read(limit).decode("utf-8", "replace")
    except OSError as error:
        return str(error)


def read_text(path: str, limit: int = 1024 * 1024) -> str:
    """Return the beginning of a text file, at most `limit` bytes; an empty string if it is missing or unreadable."""
    try:
        with open_regular(path) as stream:
            return stream.read(limit).decode("utf-8", "replace")
    except OSError:
        return ""


def time_beside(path: str) -> float:
    """Return the present unix time by the clock that dates the files of a folder; this machine's if it dates none now.

    On a file server, that clock is another one.

    Args:
        path: A file of ours, which is dated.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | _AS_IT_IS, 0o600)
    except OSError:
        return time.time()
    try:
        os.utime(descriptor)
        return os.fstat(descriptor).st_mtime
    except OSError:
        return time.time()
    finally:
        os.close(descriptor)


def remove(path: str) -> None:
    """Delete a file if it exists."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def lock(path: str, timeout_s: Optional[float] = None) -> Optional[int]:
    """Take an flock.

    Some NFS mounts have no locks. The descriptor is then returned without a lock. Callers therefore rely on exclusive
    links and folders for correctness, and on locks only for order.

    Args:
        path: The lock file.
        timeout_s: How long to wait for another holder; None waits without limit.

    Returns:
        The descriptor, or None if another process held the lock for `timeout_s` seconds.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | _AS_IT_IS, 0o600)
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (fcntl.LOCK_NB if deadline is not None else 0))
            return descriptor
        except OSError as error:
            if error.errno in _NO_LOCKS:
                return descriptor
            if error.errno not in (errno.EAGAIN, errno.EACCES) or deadline is None:
                os.close(descriptor)
                raise
        if time.monotonic() >= deadline:
            os.close(descriptor)
            return None
        time.sleep(0.05)


def is_locked(path: str) -> bool:
    """Return whether another process is known to hold an flock on a file. A missing file is not locked."""
    try:
        descriptor = os.open(path, os.O_RDONLY | _AS_IT_IS)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno not in _NO_LOCKS
    finally:
        os.close(descriptor)
    return False


@contextlib.contextmanager
def locked(path: str) -> Iterator[int]:
    """Hold an flock during a block; wait for it without limit."""
    descriptor = lock(path)
    if descriptor is None:
        raise OSError(errno.EAGAIN, "locked by another process", path)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
