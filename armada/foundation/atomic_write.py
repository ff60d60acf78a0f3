"""Files that are written whole or not at all: into a temporary neighbour, then renamed or linked to their name.

A reader, and a crash of the process, see the former file or the new one. With `durable` a power cut does, too.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SUFFIX = ".tmp"
"""Temporary files are hidden and end so: `.NAME.RANDOM.tmp`, or `.NAME.tmp` where they are not `unique`."""


def write_atomically(
    path: Path,
    content: str | bytes,
    *,
    mode: int = 0o600,
    durable: bool = True,
    unique: bool = True,
) -> None:
    """Put a file in the place of the one with that name, if any. Its folder must be there.

    Args:
        path: The file; a symbolic link is replaced, not followed.
        content: Text is written as UTF-8.
        mode: Its permissions; the umask is taken from them.
        durable: Force file and folder out to the disk. Without, a power cut may leave an empty file.
        unique: See `replacing`.

    Raises:
        OSError: The disk would not take it; the former file stays.
    """
    with replacing(path, durable=durable, unique=unique) as temporary:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, mode)
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(content.encode() if isinstance(content, str) else content)


@contextlib.contextmanager
def replacing(path: Path, *, durable: bool = False, unique: bool = True, keep_first: bool = False) -> Iterator[Path]:
    """Give the name of a temporary file to write; it becomes `path` when the block ends, and goes when the block fails.

    Args:
        path: The file to make or to replace.
        durable: Force file and folder out to the disk.
        unique: Give the temporary file a name that nobody else uses. Without, it has always the same: where a lock keeps others
            out, so that what a killed process left is written over by the next.
        keep_first: Leave the file that somebody else made meanwhile: who is first is everybody's.

    Raises:
        OSError: The disk would not take it; the former file stays.
    """
    hidden = path.name if path.name.startswith(".") else f".{path.name}"
    temporary = path.with_name(f"{hidden}.{secrets.token_hex(8)}{SUFFIX}" if unique else f"{hidden}{SUFFIX}")
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
        with contextlib.suppress(OSError):  # renamed, or never made; what is raised already says more
            temporary.unlink()


def fsync(path: Path) -> None:
    """Force a file's bytes, or a folder's names, out to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_if_changed(path: Path, text: str) -> None:
    """Put a file that only its owner may read at `path`, unless it is there already; its folder is made, too.

    Raises:
        OSError: The disk would not take it.
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
