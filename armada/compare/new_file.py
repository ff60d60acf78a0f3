"""Write a file of the user's: completely or not at all, and never over another file unless that was asked for."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from armada.errors import ArmadaError, Conflict, UsageError
from armada.foundation.atomic_write import SUFFIX, fsync
from armada.foundation.sanitize import sanitize_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from armada.paths import HomePaths


def check_new_file(word: str, option: str, home: HomePaths, *, force: bool) -> Path:
    """Return the path of a file to write.

    Args:
        word: The name as the user wrote it.
        option: The option that it was written after, for hints.
        home: Home's folders, which nothing is written into.
        force: A file of that name may be replaced.

    Raises:
        UsageError: It cannot be the name of a file.
        Conflict: There is something of that name already.
    """
    path = Path(word).expanduser().absolute()
    shown = sanitize_line(word, 300)
    if not word.strip() or path.name in ("", "..") or "\0" in word or word.endswith("/"):
        raise UsageError(f"{shown!r} is not the name of a file", hint=f"{option} FILE")
    if word == "-":
        raise UsageError(f"{option} - prints nothing", hint=f"{option} FILE; a file of that name is {option} ./-")
    if path.is_dir():
        raise UsageError(f"{shown} is a folder", hint=f"{option} {sanitize_line(path / 'runs', 300)}")
    if not path.parent.is_dir():
        raise UsageError(f"there is no folder {sanitize_line(path.parent, 300)}", hint="mkdir -p makes it")
    real = path.parent.resolve()
    for own in (home.state.resolve(), home.config.resolve()):
        if real == own or own in real.parents:
            raise UsageError(f"{shown} is in armada's own folder ({own})", hint="name a file elsewhere")
    if os.path.lexists(path):
        if not force:
            raise _taken(path)
        if path.exists() and not path.is_file():
            raise Conflict(f"{shown} is not a file", hint="name another file")
    return path


@contextlib.contextmanager
def new_file(path: Path, *, force: bool) -> Iterator[Path]:
    """Yield the path of an empty temporary file, which becomes `path` at the end of the block.

    Args:
        path: The file, from `check_new_file`.
        force: Replace a file of that name and keep its mode. A link is replaced, its target stays.

    Raises:
        Conflict: Another program created the file meanwhile.
        ArmadaError: The disk refuses it.
    """
    temporary = path.with_name(f".{path.name[:100]}.{secrets.token_hex(8)}{SUFFIX}")
    try:
        _create(temporary, path)
        yield temporary
        fsync(temporary)
        if force:
            temporary.replace(path)
        else:
            _link(temporary, path)
        fsync(path.parent)
    except ArmadaError:
        raise
    except OSError as error:
        what = f"{sanitize_line(path, 300)} could not be written: {error.strerror}"
        raise ArmadaError(what, hint="check the disk's space and the folder's rights") from error
    finally:
        with contextlib.suppress(OSError):  # renamed, or never created
            temporary.unlink()


def _create(temporary: Path, path: Path) -> None:
    """Create a file with the mode of the file that it replaces, before anything is written to it; the owner can write it."""
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        with contextlib.suppress(OSError):  # there is none, or a link that leads nowhere
            mode = path.stat().st_mode
            if stat.S_ISREG(mode):
                os.fchmod(descriptor, mode & 0o777 | 0o600)
    finally:
        os.close(descriptor)


def _link(finished: Path, path: Path) -> None:
    try:
        os.link(finished, path)
    except FileExistsError as error:
        raise _taken(path) from error
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EMLINK):
            raise
        if os.path.lexists(path):  # without hard links, another program may create it after this look
            raise _taken(path) from error
        finished.replace(path)


def _taken(path: Path) -> Conflict:
    return Conflict(f"{sanitize_line(path, 300)} exists already", hint="name another file, or say --force")
