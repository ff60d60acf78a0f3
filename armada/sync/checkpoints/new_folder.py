"""Copy a checkpoint at home into a folder of the user's, completely or not at all; each file is verified while it is copied."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import secrets
import shutil
import stat
from typing import TYPE_CHECKING, BinaryIO

from armada.errors import ArmadaError, Conflict, NotFound, UsageError
from armada.foundation.atomic_write import fsync
from armada.foundation.ending_signals import like_an_interrupt
from armada.foundation.sanitize import sanitize_line
from armada.sync.checkpoints.proof import doubt
from armada.sync.checkpoints.published import read_published
from armada.sync.errors import DiskFull, ManifestRejected
from armada.units import amount

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from armada.paths import HomePaths
    from armada.store.checkpoints import Checkpoint
    from armada.store.database import Database
    from armada.sync.checkpoints.manifest import Manifest
    from armada.sync.transfer.interface import File

_BLOCK = 1 << 20
_ROOM = "free some space there, or name a folder on another disk"


_ADDRESS = re.compile(r"[A-Za-z][\w+.-]*:/")


def check_target(target: Path, home: HomePaths) -> None:
    """Refuse a folder that cannot be filled.

    Raises:
        UsageError: It is an address, or lies in armada's own folders.
        Conflict: It exists and is not an empty folder.
    """
    if any(_ADDRESS.match(f"{part}/") for part in target.parts):
        raise UsageError(f"{target} is not the name of a folder here", hint="name a folder: --to ./model")
    real = target.resolve()
    for own in (home.state.resolve(), home.config.resolve()):
        if real == own or own in real.parents or real in own.parents:
            raise UsageError(f"{target} is armada's own folder ({own})", hint="name a folder elsewhere: --to ./model")
    if target.is_symlink() or (os.path.lexists(target) and not target.is_dir()):
        what = "a link" if target.is_symlink() else "no folder"
        raise Conflict(f"{target} is {what}", hint="name a folder that does not exist, or is empty")
    if target.exists() and any(target.iterdir()):
        raise _taken(target)


@contextlib.contextmanager
def new_folder(target: Path, what: str, size_bytes: int, *, private: bool = False) -> Iterator[Path]:
    """Provide a folder to be filled; it becomes `target` at the end, or is deleted after an error.

    An empty folder that exists is filled from within, so it keeps its owner and mode, and may be where a disk is mounted.

    Args:
        target: A folder that does not exist, or is empty.
        what: What is written, for messages, such as `the export of checkpoint-5`.
        size_bytes: How much it needs.
        private: Whether only the owner may access a folder that is created.

    Raises:
        Conflict: Another process created the folder meanwhile.
        DiskFull: It does not fit there.
        ArmadaError: The folder cannot be written.
    """
    with like_an_interrupt():
        is_there = target.exists()
        part = (target if is_there else target.parent) / f".armada-{secrets.token_hex(6)}.part"
        created: list[Path] = []
        try:
            created = _make_parents(part.parent)
            part.mkdir(mode=0o700 if private else 0o777)
            _check_space(part, target, what, size_bytes)
            yield part
            for path in (*part.rglob("*"), part):
                fsync(path)
            _publish(part, target, within=is_there)
            created = []
        except OSError as error:
            if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                raise _taken(target) from error
            message = f"cannot write {what} to {target}: {error.strerror}; nothing was left there"
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise DiskFull(message, hint=_ROOM) from error
            raise ArmadaError(message) from error
        finally:
            shutil.rmtree(part, ignore_errors=True)
            for folder in reversed(created):
                with contextlib.suppress(OSError):  # another process uses it
                    folder.rmdir()


def copy_verified(
    database: Database, checkpoint: Checkpoint, file: File, target: Path, told: Callable[[int], None] = lambda _: None
) -> None:
    """Copy one file of a checkpoint at home; its size and hash are those of the copied bytes.

    Args:
        database: The store; damage is recorded there.
        checkpoint: The checkpoint.
        file: The file.
        target: A new file.
        told: Called with the size of each copied block in bytes.

    Raises:
        ArmadaError: The file at home is damaged or gone.
        OSError: The target cannot be written.
    """
    digest, size = hashlib.sha256(), 0
    descriptor = open_regular(checkpoint.home_path / file.path) if checkpoint.home_path is not None else None
    with target.open("xb") as copy:
        if descriptor is not None:
            with open(descriptor, "rb") as source:  # noqa: PTH123  # from a descriptor opened without following links
                while block := _read(source):
                    size += len(block)
                    if size > file.size:
                        break
                    digest.update(block)
                    copy.write(block)
                    told(len(block))
    if size != file.size or digest.hexdigest() != file.sha256:
        doubt(database, checkpoint, file.path)
        raise damaged(checkpoint, file.path)


def _read(source: BinaryIO) -> bytes:
    """Read a block; nothing more from where the disk cannot read, so that the file counts as damaged."""
    try:
        return source.read(_BLOCK)
    except OSError:
        return b""


def damaged(checkpoint: Checkpoint, name: str, outcome: str = "nothing was written") -> ArmadaError:
    """Return the error for a copy at home that does not match its manifest. `outcome`: what was not done for that."""
    return ArmadaError(
        f"checkpoint-{checkpoint.step} of {checkpoint.run_id} is damaged at home: {sanitize_line(name, 200)} is not "
        f"as it came; {outcome}",
        hint=f"armada sync verify {checkpoint.run_id} --read-data",
    )


def read_whole(
    database: Database, checkpoint: Checkpoint, place: Path | None, outcome: str = "nothing was written"
) -> tuple[Path, Manifest, list[File]]:
    """Return the folder of a checkpoint at home, its manifest, and the files that are to be there.

    Args:
        database: The store. A manifest that is not as it came is recorded there as damage.
        checkpoint: The checkpoint.
        place: Its folder, as recorded.
        outcome: What is not done where this fails.

    Raises:
        NotFound: The folder is gone.
        ArmadaError: The manifest is not as it came.
    """
    if place is None or not place.is_dir():
        raise NotFound(
            f"the folder of checkpoint-{checkpoint.step} of {checkpoint.run_id} is gone from home",
            hint=f"armada pull {checkpoint.run_id} --checkpoint {checkpoint.step}",
        )
    try:
        return (place, *read_published(place, checkpoint.digest))
    except ManifestRejected as error:
        doubt(database, checkpoint, "its manifest")
        raise damaged(checkpoint, "MANIFEST.json", outcome) from error


def open_regular(path: Path) -> int | None:
    """Open a regular file without following a link; None if there is none."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        return None
    return descriptor


def _publish(part: Path, target: Path, *, within: bool) -> None:
    """Give the finished folder, or what is in it, its name."""
    if not within:
        part.replace(target)
        fsync(target.parent)
        return
    if [each.name for each in target.iterdir()] != [part.name]:
        raise _taken(target)
    for each in part.iterdir():
        each.replace(target / each.name)
    part.rmdir()
    fsync(target)


def _check_space(part: Path, target: Path, what: str, size_bytes: int) -> None:
    free = shutil.disk_usage(part).free
    if size_bytes > free:
        raise DiskFull(
            f"{what} needs {amount(size_bytes)}, and {amount(free)} are free at {target}",
            hint=_ROOM,
        )


def _make_parents(folder: Path) -> list[Path]:
    """Create a folder and those above it; return the new ones, the outermost first."""
    missing = []
    while not folder.exists():
        missing.append(folder)
        folder = folder.parent
    created = list(reversed(missing))
    for each in created:
        each.mkdir(exist_ok=True)
    return created


def _taken(target: Path) -> Conflict:
    return Conflict(f"{target} exists already and is not empty", hint="name a folder that does not exist")
