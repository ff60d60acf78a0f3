"""Write files completely or not at all: first to a temporary file next to it, which is then renamed or linked.

A reader sees the old or the new file, also after the process was killed. With `durable`, that holds after a power
failure, too.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SUFFIX = ".tmp"
"""The suffix of temporary files, which are hidden: `.NAME.RANDOM.tmp`, or `.NAME.tmp` if they are not `unique`."""


def write_atomically(
    path: Path,
    content: str | bytes,
    *,
    mode: int = 0o600,
    durable: bool = True,
    unique: bool = True,
) -> None:
    """Create or replace a file. Its folder must exist.

    Args:
        path: The file. A symbolic link is replaced, not followed.
        content: Text is written as UTF-8.
        mode: Its permissions before the umask.
        durable: Flush file and folder to disk. Without this, a power failure may leave an empty file.
        unique: See `replacing`.

    Raises:
        OSError: The disk refuses the file; the old file stays.
    """
    with replacing(path, durable=durable, unique=unique) as temporary:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, mode)
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(content.encode() if isinstance(content, str) else content)


def rewrite_atomically(path: Path, content: str | bytes) -> None:
    """Replace a file that a person may share: it keeps its permissions and, where this user may give it, its owner and group.

    Args:
        path: The file, which is created for its owner alone if it does not exist. A symbolic link is replaced.
        content: Text is written as UTF-8.

    Raises:
        OSError: The disk refuses the file; the old file stays.
    """
    with replacing(path, durable=True) as temporary:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(content.encode() if isinstance(content, str) else content)
            with contextlib.suppress(FileNotFoundError):
                former = path.stat()
                for owner in (former.st_uid, -1):  # -1: as it is
                    with contextlib.suppress(OSError):
                        os.fchown(descriptor, owner, former.st_gid)
                        break
                os.fchmod(descriptor, former.st_mode & 0o777)


@contextlib.contextmanager
def replacing(path: Path, *, durable: bool = False, unique: bool = True, keep_first: bool = False) -> Iterator[Path]:
    """Yield the path of a temporary file to write. It becomes `path` at the end of the block, and is deleted if the block fails.

    Args:
        path: The file to create or to replace.
        durable: Flush file and folder to disk.
        unique: Give the temporary file a unique name. False gives it always the same name, for callers that hold a
            lock: the next one then overwrites what a killed process left.
        keep_first: Keep a file that another process created meanwhile: the first one counts for all.

    Raises:
        OSError: The disk refuses the file; the old file stays.
    """
    hidden = path.name if path.name.startswith(".") else f".{path.name}"
    temporary = path.with_name(f"{hidden}.{os.urandom(8).hex()}{SUFFIX}" if unique else f"{hidden}{SUFFIX}")
    try:
        yield temporary
        if durable:
            fsync(temporary)
        if keep_first:
            _link(temporary, path)
        else:
            temporary.replace(path)
        if durable:
            fsync(path.parent)
    finally:
        with contextlib.suppress(OSError):  # renamed, or never created; an error that is raised explains more
            temporary.unlink()


def fsync(path: Path) -> None:
    """Flush a file's bytes, or a folder's names, to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_if_changed(path: Path, text: str) -> None:
    """Write a file that only its owner may read, unless it is already the same. Create its folder if it is missing.

    Raises:
        OSError: The disk refuses the file.
    """
    try:
        if path.read_text(encoding="utf-8") == text and path.stat().st_mode & 0o777 == 0o600:
            return
    except (FileNotFoundError, UnicodeDecodeError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_atomically(path, text)


def _link(temporary: Path, path: Path) -> None:
    try:
        os.link(temporary, path)
    except FileExistsError:
        return
    except OSError:  # a file system without hard links
        temporary.rename(path)
