"""Write an export to a folder, completely or not at all: it is made beside the folder and renamed at the end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from armada.export.card import make_card
from armada.export.subject import CARD
from armada.foundation.progress import TransferProgress
from armada.sync.checkpoints.new_folder import copy_verified, new_folder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from armada.export.subject import Subject
    from armada.foundation.progress import Progress
    from armada.store.database import Database


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
    what = f"the export of checkpoint-{subject.checkpoint.step}"
    with new_folder(target, what, subject.size_bytes) as part:
        _fill(database, subject, part, target.name, progress)
        convert(part)


def _fill(database: Database, subject: Subject, part: Path, name: str, progress: Progress) -> None:
    done = 0

    def told(size_bytes: int) -> None:
        nonlocal done
        done += size_bytes
        progress.transfer("export", name, TransferProgress(done, subject.size_bytes, None))

    for file in subject.files:
        place = part / file.path
        place.parent.mkdir(parents=True, exist_ok=True)
        copy_verified(database, subject.checkpoint, file, place, told)
    for path, content in subject.rewritten.items():
        (part / path).write_bytes(content)
    (part / CARD).write_text(make_card(database, subject, f"./{name}"), encoding="utf-8")
