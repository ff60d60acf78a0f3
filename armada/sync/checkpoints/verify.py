"""Verify published checkpoints, as restic's `check` does; damaged files are fetched again while a host still has them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from armada.store import checkpoints, files_home
from armada.sync.checkpoints import folders, published
from armada.sync.errors import ManifestRejected
from armada.sync.transfer.interface import File
from armada.sync.transfer.staging import has_size, read_right

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from armada.store.checkpoints import Checkpoint
    from armada.store.database import Database

_FILES_AT_ONCE = 200


@dataclass(frozen=True, slots=True)
class Finding:
    """One published checkpoint: `damaged` lists its missing or wrong files, including `manifest` if that is damaged.

    `is_read`: every byte of it was read for that.
    """

    checkpoint: Checkpoint
    place: Path
    damaged: tuple[File, ...]
    manifest_damaged: bool = False
    is_read: bool = False

    @property
    def good(self) -> bool:
        return not self.damaged and not self.manifest_damaged


def without_damage(finding: Finding) -> Finding:
    """Return the finding for the same checkpoint after its repair."""
    return replace(finding, damaged=(), manifest_damaged=False)


def look_over(database: Database, run_id: str, *, read_data: bool, told: Callable[[str], None]) -> list[Finding]:
    """Compare every published checkpoint of a run with its manifest.

    Args:
        database: The store.
        run_id: The run.
        read_data: Read every byte; otherwise check sizes and the manifest's own hash, but read what was damaged before.
        told: Called with the name of what is being checked.

    Raises:
        FolderAway: Their folder is not seen.
    """
    folders.require_there(database, run_id)
    found = []
    for checkpoint in checkpoints.of_run(database, run_id):
        place = checkpoint.home_path
        if place is None:
            continue
        told(place.name)
        found.append(look_at(database, checkpoint, place, read_data=read_data))
    if not all(finding.good for finding in found):
        folders.require_there(database, run_id)  # again: their disk may have gone away meanwhile
    return found


def look_at(database: Database, checkpoint: Checkpoint, place: Path, *, read_data: bool) -> Finding:
    """Compare one published checkpoint with its manifest, as `look_over` does. Its folder must be seen."""
    try:
        _, files = published.read_published(place, checkpoint.digest)
    except ManifestRejected:
        return Finding(checkpoint, place, (), manifest_damaged=True)
    is_read = read_data or (checkpoint.trouble is not None and not checkpoint.is_unread)
    looks = {place / file.path: read_right(place, file) for file in files} if is_read else {}
    damaged = tuple(
        file for file in files if (looks[place / file.path] is None if is_read else not has_size(place, file))
    )
    for file in damaged:
        files_home.forget(database, place / file.path)
    if is_read and not damaged and checkpoint.trouble is not None:
        read = [(file.sha256, place / file.path, file.size) for file in files if file.size]
        files_home.record(database, read, {path: look for path, look in looks.items() if look is not None})
        checkpoints.mark_home(database, checkpoint.run_id, checkpoint.digest, place)
    return Finding(checkpoint, place, damaged, is_read=is_read)


def note_damage(database: Database, finding: Finding, why: str) -> None:
    """Record that a checkpoint is damaged and could not be repaired.

    Raises:
        FolderAway: It is not seen, and so are the others: its disk may not be mounted.
    """
    checkpoint = finding.checkpoint
    if folders.is_deleted(finding.place):
        folders.require_there(database, checkpoint.run_id)
        files_home.forget(database, finding.place)
        trouble = None if checkpoint.on_host else checkpoints.WAS_HOME
        checkpoints.mark_not_home(database, checkpoint.run_id, checkpoint.digest, trouble)
        return
    checkpoints.mark_trouble(database, checkpoint.run_id, checkpoint.digest, f"damaged at home: {why}")
