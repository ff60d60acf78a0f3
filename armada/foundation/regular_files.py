"""Open files at home that somebody may have replaced: opening a pipe, for example, would block for ever.

A person may also have put a link in the place of a folder. What is behind it is theirs, and is not changed through it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from io import BufferedReader
    from pathlib import Path


def open_regular(path: Path) -> BufferedReader:
    """Open a regular file for reading.

    Raises:
        OSError: The file is missing, or is a link, a folder, a pipe or a device.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return os.fdopen(descriptor, "rb")


_ABSENT = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EINVAL, errno.EISDIR, errno.ENXIO})


def is_absence(error: OSError) -> bool:
    """Whether an error of `open_regular` says that no regular file is there; any other says nothing about its bytes."""
    return error.errno in _ABSENT


@contextlib.contextmanager
def open_parent(top: Path, name: str, *, make: bool = False) -> Iterator[tuple[int, str]]:
    """Open the folder of a file, one folder at a time, without following a link.

    Args:
        top: The outermost folder. It must not be a link; folders above it may be.
        name: The file's path, relative to `top`.
        make: Create folders that are missing.

    Yields:
        A descriptor of the folder, and the file's name in it.

    Raises:
        NotADirectoryError: `top`, or a folder in it, is a link or no folder.
        FileNotFoundError: One is missing.
        OSError: The disk refuses one.
    """
    *folders, last = name.split("/")
    place, descriptor = top, _open_folder(top, None, top)
    try:
        for folder in folders:
            place /= folder
            if make:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(folder, 0o700, dir_fd=descriptor)
            inner = _open_folder(folder, descriptor, place)
            os.close(descriptor)
            descriptor = inner
        yield descriptor, last
    finally:
        os.close(descriptor)


def _open_folder(name: str | Path, above: int | None, place: Path) -> int:
    try:
        return os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=above)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):  # of a link, systems differ
            raise NotADirectoryError(errno.ENOTDIR, "a link, or no folder", str(place)) from error
        raise


def is_special(path: Path) -> bool:
    """Whether it is a pipe, a socket or a device: none of file, folder and link."""
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode))
