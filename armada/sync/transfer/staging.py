"""A staging folder: its files, the files beside it, checks of a file, and whether more fits on its disk."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from armada.errors import ArmadaError
from armada.foundation.atomic_write import fsync
from armada.foundation.regular_files import is_absence, open_regular
from armada.store.files_home import Look
from armada.sync.errors import DiskFull
from armada.units import amount

if TYPE_CHECKING:
    from collections.abc import Sequence

    from armada.sync.transfer.interface import File

RESERVE_BYTES = 500_000_000
"""How much space is kept free on home's disk, so that the store and the user can continue to work."""

BLOCKS = ".blocks"
"""The file beside a staging folder that records the complete blocks of its files, see `block_writer`."""

INCOMING = ".rsync"
"""The folder beside it that rsync writes to, see `rsync_transfer`."""


def is_right(folder: Path, file: File) -> bool:
    """Whether it is a regular file with this size and SHA-256. One that its disk cannot read is not right."""
    return read_right(folder, file) is not None


def read_right(folder: Path, file: File) -> Look | None:
    """Return what `stat` showed of a regular file before its bytes were read; None if its size or SHA-256 is another.

    So it is of one that its disk cannot read.
    """
    try:
        return read_or_raise(folder, file)
    except OSError:
        return None


def read_or_raise(folder: Path, file: File) -> Look | None:
    """Do the same, but tell a file that its disk cannot read from one that is missing or wrong.

    Raises:
        OSError: The disk cannot read it: nothing is known of its bytes.
    """
    try:
        with open_regular(folder / file.path) as stream:
            found = os.fstat(stream.fileno())
            if found.st_size != file.size or hashlib.file_digest(stream, "sha256").hexdigest() != file.sha256:
                return None
            return Look.of(found)
    except OSError as error:
        if is_absence(error):
            return None
        raise


def has_size(folder: Path, file: File) -> bool:
    """Whether it is a regular file with this size; a cheap check."""
    try:
        found = (folder / file.path).lstat()
    except OSError:
        return False
    return stat.S_ISREG(found.st_mode) and found.st_size == file.size


def check_space(folder: Path, what: str, missing_bytes: int, *, coming_bytes: int = 0) -> None:
    """Check that there is space, before anything is fetched or copied.

    Args:
        folder: A folder on the disk.
        what: What needs the space, for the message.
        missing_bytes: How much it needs.
        coming_bytes: How much other transfers will write there.

    Raises:
        DiskFull: It would not fit.
    """
    free = shutil.disk_usage(folder).free
    if missing_bytes > 0 and missing_bytes + coming_bytes + RESERVE_BYTES > free:
        others = f" ({amount(coming_bytes)} of it for files that are arriving now)" if coming_bytes else ""
        raise DiskFull(
            f"{what} needs {amount(missing_bytes)} more, {amount(free)} are free at {folder}{others}",
            hint="free some space at home, or move ARMADA_HOME; it waits on the host",
        )


def held_bytes(staging: Path, files: Sequence[File]) -> int:
    """Return the bytes that an interrupted transfer already occupies; files in staging are sparse."""
    held = 0
    for folder in (staging, incoming(staging)):
        for file in files:
            with contextlib.suppress(OSError):
                held += (folder / file.path).lstat().st_blocks * 512
    return held


def incoming(staging: Path) -> Path:
    """Return the folder that rsync writes to; nothing in it was verified or is shared."""
    return staging.with_name(staging.name + INCOMING) / "files"


def flush(staging: Path, path: Path) -> None:
    """Flush a file or a folder in staging to disk. What the disk refuses is deleted, so that it is fetched again.

    The kernel tells an error once, and takes the bytes in its cache for written from then on: they would be read as right,
    the next fsync would report nothing, and no disk would have them.

    Raises:
        OSError: The disk refuses it.
    """
    try:
        fsync(path)
    except OSError as error:
        if error.filename is not None:
            raise  # it could not be opened: nothing was said of its bytes
        _drop(staging, path)
        raise OSError(error.errno, error.strerror, str(path)) from error


def _drop(staging: Path, path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
        return
    with contextlib.suppress(OSError), staging.with_name(staging.name + BLOCKS).open("a") as journal:
        journal.write(f"- {path.relative_to(staging)}\n")
    path.unlink()


def clear_staging(staging: Path) -> None:
    """Remove what lies beside a staging folder whose files were published."""
    staging.with_name(staging.name + BLOCKS).unlink(missing_ok=True)
    shutil.rmtree(incoming(staging).parent, ignore_errors=True)
    with contextlib.suppress(OSError):  # another checkpoint may be in there
        staging.parent.rmdir()


def make_staging(staging: Path) -> None:
    """Make the staging folder of a checkpoint, in the folder of checkpoints that is there: none is made above it.

    Raises:
        ArmadaError: A link is in its place, or in that of the folder above it: nothing is put, or deleted, behind it.
        OSError: The disk refuses it.
    """
    for folder in (staging.parent, staging):
        if folder.is_symlink():
            raise ArmadaError(f"{folder} is a link, so nothing is put there", hint="move it away")
    for folder in (staging.parent, staging):
        folder.mkdir(mode=0o700, exist_ok=True)


def staged(folder: Path) -> list[Path]:
    """Return what lies in the staging folder of a run's checkpoints; no links, and nothing behind one."""
    within = folder / ".staging"
    return [] if within.is_symlink() else [path for path in within.glob("*") if not path.is_symlink()]


def digest_of(path: Path) -> str:
    """Return the checkpoint that a staging folder, or something beside it, belongs to."""
    return path.name.removesuffix(BLOCKS).removesuffix(INCOMING)
