"""Copy files between folders of this machine, by the same rules as over SSH."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from armada.errors import ArmadaError, NotFound, ProvisionFailed
from armada.foundation.progress import TransferProgress
from armada.transport.interface import ProgressCallback
from armada.transport.ssh.names import checked_names

_CHUNK_BYTES = 1 << 20
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_DISK_FULL = {errno.ENOSPC, errno.EDQUOT}


def copy_files(
    source: Path,
    files: Sequence[str],
    destination: Path,
    *,
    host: str,
    progress: ProgressCallback | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Copy regular files below `source` to the same names below `destination`; each appears complete or not at all.

    Raises:
        NotFound: A file is missing, not a regular file, or reached through a link.
        ArmadaError: A name is ambiguous.
        ProvisionFailed: The destination cannot be written.
    """
    names = checked_names(files, host=host)
    began, done_bytes = clock(), 0

    def report(written: int) -> None:
        nonlocal done_bytes
        done_bytes += written
        if progress:
            elapsed_s = clock() - began
            progress(TransferProgress(done_bytes, total_bytes, done_bytes / elapsed_s if elapsed_s > 0 else None))

    try:
        destination.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _opened(source, host) as above, _opened(destination, host) as below:
            total_bytes = sum(_size(above, name, host) for name in names)
            for name in names:
                _copy_file(above, below, name, host, report)
    except OSError as error:
        hint = "make room there" if error.errno in _DISK_FULL else None
        raise ProvisionFailed(f"cannot copy to {destination}: {error.strerror}", hint=hint, host=host) from error


@contextlib.contextmanager
def _opened(folder: Path, host: str) -> Iterator[int]:
    # The folder itself may be a link, as is usual for data. Nothing below it may be one.
    try:
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise NotFound(f"there is no folder {folder}", host=host) from error
    try:
        yield fd
    finally:
        os.close(fd)


@contextlib.contextmanager
def _parent(root: int, name: str, host: str, *, make: bool = False) -> Iterator[tuple[int, str]]:
    """Open the folder of `name` one component at a time, so that no link is followed on the way."""
    *folders, last = name.split("/")
    fd = os.dup(root)
    try:
        for folder in folders:
            if make:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(folder, 0o700, dir_fd=fd)
            try:
                inner = os.open(folder, _FOLDER, dir_fd=fd)
            except (FileNotFoundError, NotADirectoryError) as error:
                raise _not_regular(name, host) from error
            except OSError as error:
                if error.errno == errno.ELOOP:
                    raise _not_regular(name, host) from error
                raise
            os.close(fd)
            fd = inner
        yield fd, last
    finally:
        os.close(fd)


def _not_regular(name: str, host: str) -> ArmadaError:
    return NotFound(f"{name!r} does not exist, or is not a regular file (armada does not follow links)", host=host)


def regular_sizes(folder: Path, names: Sequence[str], *, host: str) -> list[int]:
    """Return the sizes of files below a folder. Raises NotFound if one is missing, not a file, or behind a link."""
    with _opened(folder, host) as fd:
        return [_size(fd, name, host) for name in names]


def _size(root: int, name: str, host: str) -> int:
    with _parent(root, name, host) as (folder, last):
        try:
            found = os.stat(last, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError as error:
            raise _not_regular(name, host) from error
    if not stat.S_ISREG(found.st_mode):
        raise _not_regular(name, host)
    return found.st_size


def _copy_file(above: int, below: int, name: str, host: str, report: Callable[[int], None]) -> None:
    with _parent(above, name, host) as (source, last), _parent(below, name, host, make=True) as (target, _):
        # Non-blocking: opening must not hang if the file was replaced by a FIFO after the check.
        reader = os.open(last, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=source)
        part = f".{secrets.token_hex(8)}.part"
        with os.fdopen(reader, "rb") as stream:
            found = os.fstat(stream.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise _not_regular(name, host)
            mode = 0o700 if found.st_mode & stat.S_IXUSR else 0o600
            try:
                writer = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode, dir_fd=target)
                with os.fdopen(writer, "wb") as copy:
                    while chunk := stream.read(_CHUNK_BYTES):
                        copy.write(chunk)
                        report(len(chunk))
                    copy.flush()
                    os.utime(copy.fileno(), ns=(found.st_atime_ns, found.st_mtime_ns))
                os.rename(part, last, src_dir_fd=target, dst_dir_fd=target)
            except BaseException:
                with contextlib.suppress(FileNotFoundError):  # it may not have been created yet
                    os.unlink(part, dir_fd=target)
                raise
