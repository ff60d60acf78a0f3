"""Write an export to a folder, completely or not at all: it is made beside the folder and renamed at the end."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import shutil
from typing import TYPE_CHECKING

from armada.errors import ArmadaError, Conflict, UsageError
from armada.export.card import make_card
from armada.export.subject import CARD, copy_verified
from armada.foundation.atomic_write import fsync
from armada.foundation.progress import TransferProgress
from armada.sync.errors import DiskFull
from armada.sync.transfer.staging import check_space

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from armada.export.subject import Subject
    from armada.foundation.progress import Progress
    from armada.paths import HomePaths
    from armada.store.database import Database


def check_target(target: Path, home: HomePaths) -> None:
    """Refuse a folder that cannot be the export's.

    Raises:
        UsageError: It lies in armada's own folders.
        Conflict: It exists and is not empty.
    """
    real = target.resolve()
    for own in (home.state.resolve(), home.config.resolve()):
        if real == own or own in real.parents or real in own.parents:
            raise UsageError(f"{target} is armada's own folder ({own})", hint="name a folder elsewhere: --to ./model")
    if os.path.lexists(target) and (target.is_symlink() or not target.is_dir() or any(target.iterdir())):
        raise _taken(target)


def write_folder(
    database: Database,
    subject: Subject,
    target: Path,
    progress: Progress,
    convert: Callable[[Path], None] = lambda _: None,
) -> None:
    """Copy the files of an export into a new folder and write its model card; each file is verified while it is copied.

    Args:
        database: The store.
        subject: The export.
        target: The folder; from `check_target`.
        progress: Receives how far it is.
        convert: Called with the complete folder, before it gets its name.

    Raises:
        Conflict: Another process created the folder meanwhile.
        DiskFull: It does not fit there.
        ArmadaError: A file at home is damaged, or the folder cannot be written.
    """
    part = target.with_name(f".{target.name}.{secrets.token_hex(6)}.part")
    created: list[Path] = []
    try:
        created = _make_parents(target.parent)
        part.mkdir()
        _check_space(part, subject)
        _fill(database, subject, part, target.name, progress)
        convert(part)
        for path in (*part.rglob("*"), part):
            fsync(path)
        part.replace(target)
        created = []
        fsync(target.parent)
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
            raise _taken(target) from error
        kind = DiskFull if error.errno in (errno.ENOSPC, errno.EDQUOT) else ArmadaError
        raise kind(f"cannot export to {target}: {error.strerror}", hint="nothing was left there") from error
    finally:
        shutil.rmtree(part, ignore_errors=True)
        for folder in reversed(created):
            with contextlib.suppress(OSError):  # another process uses it
                folder.rmdir()


def _check_space(part: Path, subject: Subject) -> None:
    try:
        check_space(part, f"the export of checkpoint-{subject.checkpoint.step}", subject.size_bytes)
    except DiskFull as error:
        error.hint = "free some space there, or name a folder on another disk"
        raise


def _fill(database: Database, subject: Subject, part: Path, name: str, progress: Progress) -> None:
    done = 0

    def told(size_bytes: int) -> None:
        nonlocal done
        done += size_bytes
        progress.transfer("export", name, TransferProgress(done, subject.size_bytes, None))

    for file in subject.files:
        place = part / file.path
        place.parent.mkdir(parents=True, exist_ok=True)
        copy_verified(database, subject, file, place, told)
    for path, content in subject.rewritten.items():
        (part / path).write_bytes(content)
    (part / CARD).write_text(make_card(database, subject, f"./{name}"), encoding="utf-8")


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
