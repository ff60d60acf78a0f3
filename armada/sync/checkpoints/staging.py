"""From verified files in staging to a published checkpoint: linked where the bytes are here already, fsynced, renamed.

Published files are read-only (0444), because checkpoints share equal files by hard links: a write must not reach two.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import stat
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from armada.errors import ArmadaError
from armada.store import files_home
from armada.sync.checkpoints.manifest import NAME, File, Manifest, ManifestRejected, parse_manifest
from armada.units import amount

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from armada.store.checkpoints import Checkpoint
    from armada.store.database import Database

RESERVE_BYTES = 500_000_000
"""Home's disk keeps so much free, so that the store and the person can go on working."""

PARTIAL = "PARTIAL.json"
"""Beside the manifest of a checkpoint that `include_optimizer` made smaller: `{"format": 1, "left_out": [paths]}`."""

TRASH = ".trash"
BLOCKS = ".blocks"
"""Beside a staging folder: which blocks of its files are whole, see `arrival`."""

INCOMING = ".rsync"
"""Beside it: what rsync writes, see `rsync_transfer`."""

FORGOTTEN = "forgotten"
"""Beside the results of a run that a person took out of the store."""


class DiskFull(ArmadaError):
    """Home has no room for a checkpoint; it stays on the host."""


def is_right(folder: Path, file: File) -> bool:
    """Whether a regular file of that size and SHA-256 lies there."""
    try:
        descriptor = os.open(folder / file.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return False
    with open(descriptor, "rb") as stream:  # noqa: PTH123  # from a descriptor opened without following links
        found = os.fstat(stream.fileno())
        if not stat.S_ISREG(found.st_mode) or found.st_size != file.size:
            return False
        return hashlib.file_digest(stream, "sha256").hexdigest() == file.sha256


def has_size(folder: Path, file: File) -> bool:
    """Whether a regular file of that size lies there; a look that costs nothing."""
    try:
        found = (folder / file.path).lstat()
    except OSError:
        return False
    return stat.S_ISREG(found.st_mode) and found.st_size == file.size


def link_known(database: Database, staging: Path, files: Sequence[File]) -> list[File]:
    """Put a hard link into staging for every file whose bytes lie in a published checkpoint, verified again.

    Returns:
        The files that have to travel.
    """
    return [file for file in files if not file.size or not _link(database, staging / file.path, file)]


def _link(database: Database, target: Path, file: File) -> bool:
    for source in files_home.find(database, file.sha256):
        if not is_right(source.parent, File(source.name, file.size, file.sha256)):
            files_home.forget(database, source)  # deleted by hand, or damaged: `armada sync verify` says which
            continue
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        target.unlink(missing_ok=True)
        try:
            os.link(source, target)
        except OSError:
            return False  # another file system, or one without links
        return True
    return False


def check_space(folder: Path, what: str, missing_bytes: int, *, coming_bytes: int = 0) -> None:
    """Refuse before anything is fetched or copied.

    Args:
        folder: On the disk in question.
        what: Needs the space.
        missing_bytes: How much of it.
        coming_bytes: What others are about to put there.

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
    """What a broken transfer already occupies; files in staging have holes."""
    held = 0
    for folder in (staging, incoming(staging)):
        for file in files:
            with contextlib.suppress(OSError):
                held += (folder / file.path).lstat().st_blocks * 512
    return held


def incoming(staging: Path) -> Path:
    """The folder in which files lie that rsync writes; nothing in it was verified, and nothing in it is shared."""
    return staging.with_name(staging.name + INCOMING) / "files"


def clear(staging: Path) -> None:
    """Remove what lies beside a staging folder whose files have found their places."""
    staging.with_name(staging.name + BLOCKS).unlink(missing_ok=True)
    shutil.rmtree(incoming(staging).parent, ignore_errors=True)
    with contextlib.suppress(OSError):  # another checkpoint may be in there
        staging.parent.rmdir()


def digest_of(path: Path) -> str:
    """Which checkpoint something beside or in the place of a staging folder belongs to."""
    return path.name.removesuffix(BLOCKS).removesuffix(INCOMING)


def publish(folder: Path, staging: Path, manifest: Manifest, left_out: Sequence[str]) -> Path:
    """Give verified files their final place; a kill before the rename leaves staging, after it a whole checkpoint."""
    known = {file.path for file in manifest.files} - set(left_out)
    folders = {parent.as_posix() for name in known for parent in PurePosixPath(name).parents}
    for path in sorted(staging.rglob("*"), reverse=True):
        if path.is_dir() and not path.is_symlink():
            if path.relative_to(staging).as_posix() not in folders:
                path.rmdir()
        elif path.relative_to(staging).as_posix() not in known:
            path.unlink()  # a former, broken transfer's
        else:
            path.chmod(0o444)
    (staging / NAME).write_text(manifest.text)
    if left_out:
        _write_partial(staging, left_out)
    for path in (*staging.rglob("*"), staging):
        fsync(path)
    plain = folder / f"checkpoint-{manifest.step}"
    # The same step can be saved twice: after a resume it is another checkpoint, and the first stays what it was.
    place = plain if not plain.exists() else folder / f"{plain.name}@{manifest.digest[:8]}"
    staging.rename(place)
    fsync(folder)
    return place


def find_published(folder: Path, checkpoint: Checkpoint) -> Path | None:
    """The folder of a checkpoint that was published and not recorded, because something died in between."""
    plain = f"checkpoint-{checkpoint.step}"
    for place in (folder / plain, folder / f"{plain}@{checkpoint.digest[:8]}"):
        manifest = place / NAME
        if manifest.is_file() and hashlib.sha256(manifest.read_bytes()).hexdigest() == checkpoint.digest:
            return place
    return None


def read_published(place: Path, digest: str) -> tuple[Manifest, list[File]]:
    """A published checkpoint's manifest, and the files of it that should be here.

    Raises:
        ManifestRejected: It is missing, or not the one of that digest any more.
    """
    try:
        manifest = parse_manifest((place / NAME).read_text(), digest)
        missing = left_out(place)
    except (OSError, ValueError) as error:
        raise ManifestRejected(f"{place}: {error}") from error
    return manifest, [file for file in manifest.files if file.path not in missing]


def strip(place: Path, surplus: Sequence[str]) -> None:
    """Delete files from a published checkpoint; the note that they are meant to be missing is written before."""
    _write_partial(place, sorted({*surplus, *left_out(place)}))
    fsync(place)
    for name in surplus:
        (place / name).unlink(missing_ok=True)


def mark_whole(place: Path) -> None:
    """Note that nothing is meant to be missing any more; every file must be there."""
    (place / PARTIAL).unlink(missing_ok=True)
    fsync(place)


def delete(place: Path) -> None:
    """Move a published checkpoint into the trash; emptying it may be interrupted."""
    trash = place.parent / TRASH
    trash.mkdir(mode=0o700, exist_ok=True)
    place.rename(trash / f"{place.name}-{os.getpid()}")
    fsync(place.parent)


def empty_trash(folder: Path) -> None:
    shutil.rmtree(folder / TRASH, ignore_errors=True)


def _write_partial(place: Path, left_out: Sequence[str]) -> None:
    temporary = place / f".{PARTIAL}.tmp"
    temporary.write_text(json.dumps({"format": 1, "left_out": sorted(left_out)}, indent=1) + "\n")
    fsync(temporary)
    temporary.rename(place / PARTIAL)


def left_out(place: Path) -> set[str]:
    """The files of a published checkpoint that are meant to be missing."""
    try:
        value = json.loads((place / PARTIAL).read_text())
    except FileNotFoundError:
        return set()
    return set(value["left_out"]) if isinstance(value, dict) and isinstance(value.get("left_out"), list) else set()


def fsync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def only_one(folder: Path, wait: Callable[[], None] = lambda: None) -> Iterator[bool]:
    """Two armada processes do not fetch the same run: the second waits, and finds the work done.

    Args:
        folder: Of the run's checkpoints.
        wait: Told that another is at it.

    Yields:
        Whether another was at it, so that what was seen before may be so no longer.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        waits = False
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waits = True
            wait()
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield waits


def leave(folder: Path) -> None:
    """Remove what `only_one` made of a run that is forgotten, where nothing else is there; called within it."""
    with contextlib.suppress(OSError):  # checkpoints or outputs stay
        (folder / ".lock").unlink()
        folder.rmdir()
        folder.parent.rmdir()
    with contextlib.suppress(OSError):  # where nothing stays, there is no folder; elsewhere `store check` reads it
        (folder.parent / FORGOTTEN).touch(mode=0o600)
