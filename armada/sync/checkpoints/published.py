"""Publish verified files from staging: link files whose bytes are here already, fsync, rename.

Published files are read-only (0444), because checkpoints share equal files by hard links: a write would change them
all.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import stat
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from armada.errors import ArmadaError
from armada.foundation.atomic_write import fsync, write_atomically
from armada.foundation.regular_files import is_absence, open_parent, open_regular
from armada.store import files_home
from armada.store.files_home import Look
from armada.sync.checkpoints.manifest import NAME, Manifest, parse_manifest
from armada.sync.checkpoints.names import require_apart
from armada.sync.errors import ManifestRejected
from armada.sync.transfer.interface import File
from armada.sync.transfer.staging import flush, read_right

if TYPE_CHECKING:
    from collections.abc import Sequence

    from armada.store.checkpoints import Checkpoint
    from armada.store.database import Database

PARTIAL = "PARTIAL.json"
"""A file beside the manifest of a checkpoint that `include_optimizer` reduced: `{"format": 1, "left_out": [paths]}`."""

TRASH = ".trash"
_ABOVE = 3
"""`runs`, a run's folder and its `checkpoints` may be links: folders of armada's on another disk."""


def link_known(database: Database, staging: Path, files: Sequence[File]) -> dict[str, Look]:
    """Hard-link into staging every file whose bytes lie in a published checkpoint, after verifying them again.

    Returns:
        What `stat` shows of each linked file, by its path in the checkpoint. People can change it by its other name: it is
        the same file.
    """
    linked = {}
    for file in files:
        if file.size and (look := _link(database, staging / file.path, file)) is not None:
            linked[file.path] = look
    return linked


def _link(database: Database, target: Path, file: File) -> Look | None:
    for source in files_home.find(database, file.sha256):
        look = read_right(source.parent, File(source.name, file.size, file.sha256))
        if look is None:
            files_home.forget(database, source)  # deleted by hand, or damaged: `armada sync verify` says which
            continue
        if _is_behind_link(database, source):
            continue  # it is a person's: a link to it would make it read-only
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        target.unlink(missing_ok=True)
        try:
            os.link(source, target)
        except OSError:
            return None  # another file system, or one without hard links
        now = Look.at(target)  # linking has changed its ctime
        return now if look.is_of_the_same_bytes(now) else look
    return None


def _is_behind_link(database: Database, source: Path) -> bool:
    """Whether a person put a link in the place of a checkpoint's folder, or of one in it."""
    if not source.is_relative_to(database.below):
        return False
    names = source.relative_to(database.below).parts[:-1]
    return any(database.below.joinpath(*names[:end]).is_symlink() for end in range(_ABOVE + 1, len(names) + 1))


def publish(folder: Path, staging: Path, manifest: Manifest, left_out: Sequence[str]) -> Path:
    """Move verified files to their final place. A kill before the rename leaves staging, after it a complete checkpoint.

    Raises:
        ArmadaError: Home's disk takes names in it for one.
        OSError: Home's disk refuses it.
    """
    known = {file.path for file in manifest.files} - set(left_out)
    folders = {parent.as_posix() for name in known for parent in PurePosixPath(name).parents}
    for path in sorted(staging.rglob("*"), reverse=True):
        if path.is_dir() and not path.is_symlink():
            if path.relative_to(staging).as_posix() not in folders:
                path.rmdir()
        elif path.relative_to(staging).as_posix() not in known:
            path.unlink()  # left by an earlier transfer that was interrupted
        elif stat.S_IMODE(path.lstat().st_mode) != 0o444:  # of a linked file, this would change its ctime
            path.chmod(0o444)
    require_apart(staging, [file for file in manifest.files if file.path in known], f"checkpoint-{manifest.step}")
    (staging / NAME).write_text(manifest.text)
    if left_out:
        _write_partial(staging, left_out)
    for path in (*staging.rglob("*"), staging):
        flush(staging, path)
    plain = folder / f"checkpoint-{manifest.step}"
    # The same step can be saved twice: after a resume it is another checkpoint, and the first one stays unchanged.
    place = plain if not os.path.lexists(plain) else folder / f"{plain.name}@{manifest.digest[:8]}"
    staging.rename(place)
    fsync(folder)
    return place


def find_published(folder: Path, checkpoint: Checkpoint) -> Path | None:
    """Return the folder of a checkpoint that was published but not recorded, because the process died in between."""
    plain = f"checkpoint-{checkpoint.step}"
    for place in (folder / plain, folder / f"{plain}@{checkpoint.digest[:8]}"):
        with contextlib.suppress(OSError), open_regular(place / NAME) as stream:  # an error: it is not this one
            if hashlib.file_digest(stream, "sha256").hexdigest() == checkpoint.digest:
                return place
    return None


def read_published(place: Path, digest: str) -> tuple[Manifest, list[File]]:
    """Return a published checkpoint's manifest, and those of its files that should be here.

    Raises:
        ManifestRejected: The manifest is missing, or no longer matches the digest.
    """
    try:
        if not stat.S_ISREG((place / NAME).lstat().st_mode):
            raise ManifestRejected(f"{place / NAME} is not a regular file")
        manifest = parse_manifest((place / NAME).read_text(), digest)
        missing = left_out(place)
    except (OSError, ValueError) as error:
        raise ManifestRejected(f"{place}: {error}") from error
    return manifest, [file for file in manifest.files if file.path not in missing]


def obstacle_of(error: ManifestRejected) -> OSError | None:
    """Return the error of a disk that could not read a manifest; None: it was read, or is missing, and cannot be used."""
    cause = error.__cause__
    return cause if isinstance(cause, OSError) and not is_absence(cause) else None


def replace(staging: Path, place: Path, files: Sequence[File]) -> None:
    """Give files that are right in staging the places of the bad ones in a published checkpoint.

    Raises:
        ArmadaError: A person put a link in the place of a folder; the files of other folders were replaced.
        OSError: Home's disk refuses one.
    """
    refused: NotADirectoryError | None = None
    for file in files:
        source = staging / file.path
        source.chmod(0o444)
        flush(staging, source)
        try:
            with open_parent(place, file.path, make=True) as (folder, name):
                os.replace(source, name, dst_dir_fd=folder)
        except NotADirectoryError as error:
            refused = error
    if refused is not None:
        raise no_folder(Path(refused.filename)) from refused
    if files:
        fsync(place)


def is_reachable(place: Path, path: str) -> bool:
    """Whether a file of a checkpoint can be replaced: no link is in the place of one of its folders."""
    try:
        with open_parent(place, path):
            return True
    except FileNotFoundError:
        return True
    except NotADirectoryError:
        return False


def require_folder(place: Path) -> None:
    """Refuse to put anything through a link in the place of a folder.

    Raises:
        ArmadaError: It is one.
    """
    if place.is_symlink():
        raise no_folder(place)


def no_folder(place: Path) -> ArmadaError:
    """Return the error for what would have to be put through a link."""
    what = f"{place} is a link, or no folder, so nothing is put there"
    return ArmadaError(what, hint="move it away, then armada sync verify --read-data")


def strip(place: Path, surplus: Sequence[str]) -> None:
    """Delete files from a published checkpoint. PARTIAL.json is written first, so that they count as left out.

    What is behind a link that a person put in the place of a folder stays.
    """
    _write_partial(place, sorted({*surplus, *left_out(place)}))
    for path in surplus:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError), open_parent(place, path) as (folder, name):
            os.unlink(name, dir_fd=folder)


def forget_damaged_partial(place: Path) -> None:
    """Delete the file that names what was left out, if it is damaged: then what is not here counts as damaged, and is fetched."""
    try:
        left_out(place)
    except ManifestRejected:
        mark_whole(place)


def mark_whole(place: Path) -> None:
    """Record that no file is left out any more; every file must exist."""
    (place / PARTIAL).unlink(missing_ok=True)
    fsync(place)


def delete(place: Path, manifest: Manifest) -> None:
    """Move a published checkpoint into the trash; emptying that may be interrupted.

    Only what its manifest names goes: if anything else is in the folder, that stays where it is. So does a link, and
    what is behind it: a person put it there.

    Raises:
        ArmadaError: A link is in the place of the trash.
        OSError: Home's disk refuses it.
    """
    trash = place.parent / TRASH / f"{place.name}-{os.getpid()}"
    require_folder(trash.parent)
    trash.parent.mkdir(mode=0o700, exist_ok=True)
    names = [
        NAME,
        PARTIAL,
        *(file.path for file in manifest.files),
    ]  # the manifest first: without it, it is no checkpoint
    if not _has_others(place, names):
        place.rename(trash)
        fsync(place.parent)
        return
    trash.mkdir(mode=0o700, exist_ok=True)
    for number, path in enumerate(names):
        with contextlib.suppress(FileNotFoundError, NotADirectoryError), open_parent(place, path) as (folder, name):
            # Anything else is a person's, in place of the file.
            if stat.S_ISREG(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
                os.rename(name, trash / str(number), src_dir_fd=folder)
    inner = {parent.as_posix() for path in names for parent in PurePosixPath(path).parents[:-1]}
    for path in sorted(inner, reverse=True):
        with contextlib.suppress(OSError), open_parent(place, path) as (folder, name):  # something is left in it
            os.rmdir(name, dir_fd=folder)
    fsync(place)


def _has_others(place: Path, names: Sequence[str]) -> bool:
    """Whether anything is in a folder, a link or an empty folder too, that is neither one of these files nor a folder of them."""
    files = {place / name for name in names}
    folders = {parent for file in files for parent in file.parents}
    return any(path.is_symlink() or path not in (folders if path.is_dir() else files) for path in place.rglob("*"))


def names_in_trash(folder: Path) -> set[str]:
    """Return the names of the checkpoints that are in the trash."""
    trash, found = folder / TRASH, set[str]()
    with contextlib.suppress(OSError):  # there is none
        found.update(path.name.rpartition("-")[0] for path in trash.iterdir() if not trash.is_symlink())
    return found


def empty_trash(folder: Path) -> None:
    shutil.rmtree(folder / TRASH, ignore_errors=True)


def _write_partial(place: Path, left_out: Sequence[str]) -> None:
    text = json.dumps({"format": 1, "left_out": sorted(left_out)}, indent=1) + "\n"
    write_atomically(place / PARTIAL, text, mode=0o666, unique=False)


def left_out(place: Path) -> set[str]:
    """Return the files that were deliberately left out of a published checkpoint.

    Raises:
        ManifestRejected: The file that names them is damaged.
        OSError: Home's disk cannot read it.
    """
    try:
        with open_regular(place / PARTIAL) as stream:
            value = json.loads(stream.read())
    except FileNotFoundError:
        return set()
    except (ValueError, RecursionError) as error:
        what = f"{place / PARTIAL}, which names the files left out here, is damaged: {error}"
        raise ManifestRejected(what, hint=f"armada sync verify {place.parent.parent.name}") from error
    named = value.get("left_out") if isinstance(value, dict) else None
    return {path for path in named if isinstance(path, str)} if isinstance(named, list) else set()
