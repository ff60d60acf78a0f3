"""Write a file of the user's: completely or not at all, and never over another file unless that was asked for.

What is no file but takes bytes is written to directly: pipes, character devices, and the caller's open descriptors
(`/dev/stdout`; `>(cat)` is `/dev/fd/63`). A link counts as what it leads to.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import secrets
import shutil
import stat
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from armada.errors import ArmadaError, Conflict, UsageError
from armada.foundation.atomic_write import SUFFIX, fsync
from armada.foundation.sanitize import sanitize_line
from armada.foundation.user_folder import expanded

if TYPE_CHECKING:
    from collections.abc import Iterator

    from armada.paths import HomePaths

_STANDARD = {"/dev/stdout": 1, "/dev/stderr": 2}
_DESCRIPTOR = re.compile(r"/(?:dev|proc/self)/fd/([0-9]{1,9})")


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
        ArmadaError: The system refuses the name, such as one that is too long or in a folder that may not be read.
    """
    try:
        return _checked(word, option, home, force=force)
    except ArmadaError:
        raise
    except OSError as error:
        what = f"{sanitize_line(word, 300)} cannot be written: {error.strerror}"
        raise ArmadaError(what, hint="name a file elsewhere, or check the folder's rights") from error


def _checked(word: str, option: str, home: HomePaths, *, force: bool) -> Path:
    path = expanded(word).absolute()
    shown = sanitize_line(word, 300)
    if not word.strip() or path.name in ("", "..") or "\0" in word or word.endswith("/"):
        raise UsageError(f"{shown!r} is not the name of a file", hint=f"{option} FILE")
    if word == "-":
        raise UsageError(f"{option} - prints nothing", hint=f"{option} FILE; a file of that name is {option} ./-")
    if path.is_dir():
        raise UsageError(f"{shown} is a folder", hint=f"{option} {sanitize_line(path / 'runs', 300)}")
    if not path.parent.is_dir():
        raise UsageError(f"there is no folder {sanitize_line(path.parent, 300)}", hint="mkdir -p makes it")
    if _descriptor(path) is not None:
        os.close(_opened_by(path))
        return path
    real = Path(os.path.realpath(path))
    for own in (home.state.resolve(), home.config.resolve()):
        if own in real.parents:
            raise UsageError(f"{shown} is in armada's own folder ({own})", hint="name a file elsewhere")
    if not real.parent.is_dir():
        raise UsageError(f"{shown} is a link to a folder that is not there", hint="name another file")
    if os.path.lexists(real) and not _takes_bytes(path):
        if not real.is_file() or real.is_symlink():
            raise Conflict(f"{shown} is neither a file nor a pipe", hint="name another file")
        if not force:
            raise _taken(path)
    return path


@contextlib.contextmanager
def new_file(path: Path, *, force: bool) -> Iterator[Path]:
    """Yield the path of an empty temporary file, which becomes `path` at the end of the block.

    Args:
        path: The file, from `check_new_file`.
        force: Replace a file of that name and keep its mode.

    Raises:
        Conflict: Another program created the file meanwhile.
        ArmadaError: The disk refuses it, or what reads the pipe has ended.
    """
    try:
        with _passed_on(path) if _takes_bytes(path) else _put(Path(os.path.realpath(path)), force=force) as temporary:
            yield temporary
    except ArmadaError:
        raise
    except OSError as error:
        what = f"{sanitize_line(path, 300)} could not be written: {error.strerror}"
        raise ArmadaError(what, hint="check the disk's space and the folder's rights") from error


@contextlib.contextmanager
def _put(path: Path, *, force: bool) -> Iterator[Path]:
    """Yield a temporary file beside the file, and give it the file's name at the end."""
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
    finally:
        with contextlib.suppress(OSError):  # renamed, or never created
            temporary.unlink()


@contextlib.contextmanager
def _passed_on(path: Path) -> Iterator[Path]:
    """Yield a temporary file elsewhere, and write its bytes to what takes them at the end."""
    with tempfile.TemporaryDirectory() as folder:
        temporary = Path(folder) / "content"
        temporary.touch()
        yield temporary
        sys.stdout.flush()  # what was printed comes first, also where both are one pipe
        with temporary.open("rb") as content, os.fdopen(_opened_by(path), "wb") as stream:
            shutil.copyfileobj(content, stream)


def _descriptor(path: Path) -> int | None:
    """Return which open descriptor a name means, or None. Opening a file by such a name would write from its beginning."""
    name = os.path.normpath(path)
    found = _DESCRIPTOR.fullmatch(name)
    return int(found[1]) if found else _STANDARD.get(name)


def _takes_bytes(path: Path) -> bool:
    """Whether bytes are written to it directly. A block device is a disk: nobody means that."""
    if _descriptor(path) is not None:
        return True
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISCHR(mode)


def _opened_by(path: Path) -> int:
    """Open what takes bytes.

    Raises:
        UsageError: The caller gave no such descriptor, or one to read from.
        Conflict: There is a file in its place by now.
        OSError: It cannot be opened.
    """
    number = _descriptor(path)
    if number is not None:
        with contextlib.suppress(OSError):  # it is not open
            # Those that this program opened itself, such as its database, are not the caller's.
            if os.get_inheritable(number) and fcntl.fcntl(number, fcntl.F_GETFL) & os.O_ACCMODE != os.O_RDONLY:
                return os.dup(number)
        raise UsageError(f"nothing can be written to {path}", hint="name a file, or an open descriptor")
    descriptor = os.open(path, os.O_WRONLY | os.O_NOCTTY)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise _taken(path)
    return descriptor


def _create(temporary: Path, path: Path) -> None:
    """Create a file with the mode of the file that it replaces, before anything is written; the owner can write it."""
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
