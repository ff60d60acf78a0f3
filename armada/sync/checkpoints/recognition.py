"""Recognise a checkpoint that is in its place at home and is not recorded there: every byte of it is read.

The sync that brought it died before it could record it; or its folder was deleted by a person, or not seen, and is back.
One that is not as it came is read again only once somebody has touched it: it may be gigabytes, and syncs are frequent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from armada.errors import ArmadaError
from armada.store import checkpoints, files_home, home_folders
from armada.sync.checkpoints import published
from armada.sync.checkpoints.folders import look_of, require_there
from armada.sync.errors import ManifestRejected
from armada.sync.transfer.staging import read_or_raise

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from armada.paths import HomePaths
    from armada.store.checkpoints import Checkpoint
    from armada.store.database import Database
    from armada.store.files_home import Look
    from armada.sync.transfer.interface import File


def find_unrecorded(database: Database, home: HomePaths, run_id: str) -> Iterator[tuple[Checkpoint, Path]]:
    """Yield the checkpoints that are on no host and not recorded as home, and that are in their place at home, with it."""
    for checkpoint in checkpoints.of_run(database, run_id):
        if checkpoint.on_host or checkpoint.home_path is not None:
            continue
        place = published.find_published(home.checkpoints(run_id), checkpoint)
        if place is not None and not home_folders.is_known_wrong(database, place, look_of(place)):
            yield checkpoint, place


def recognise(
    database: Database, home: HomePaths, run_id: str, told: Callable[[str], None]
) -> list[tuple[Checkpoint, ArmadaError]]:
    """Record the checkpoints that are at home, every byte of them, and that their host has no longer.

    Returns:
        Those that their disk cannot read, with the reason. Nothing is concluded of them.

    Args:
        database: The store.
        home: Where the checkpoints are.
        run_id: The run.
        told: Called with the name of each that is read.

    Raises:
        FolderAway: Their disk went away while one was read.
    """
    unread = []
    for checkpoint, place in list(find_unrecorded(database, home, run_id)):
        told(place.name)
        look = look_of(place)
        try:
            files = _intact(place, checkpoint)
        except OSError as error:
            require_there(database, run_id)
            what = f"{place} cannot be read: {error.strerror}"
            hint = f"mend its disk, or copy it from a backup; if it is lost, delete {place}"
            unread.append((checkpoint, ArmadaError(what, hint=hint)))
            continue
        require_there(database, run_id)
        if files is not None:
            read = [(each.sha256, place / each.path, each.size) for each in files if each.size]
            files_home.record(database, read, {place / each.path: seen for each, seen in files.items()})
            checkpoints.mark_home(database, run_id, checkpoint.digest, place)
        else:
            home_folders.record_wrong(database, run_id, place, look)
            checkpoints.mark_trouble(database, run_id, checkpoint.digest, checkpoints.WAS_HOME)
    return unread


def _intact(place: Path, checkpoint: Checkpoint) -> dict[File, Look] | None:
    """Read a published checkpoint of which the store has no record.

    Returns:
        Its files, with what `stat` showed of each before it was read; None if one has changed.

    Raises:
        OSError: Their disk cannot read one.
    """
    try:
        _, files = published.read_published(place, checkpoint.digest)
    except ManifestRejected as error:
        if (obstacle := published.obstacle_of(error)) is not None:
            raise obstacle from error
        return None
    looks = {file: read_or_raise(place, file) for file in files}
    seen = {file: look for file, look in looks.items() if look is not None}
    return seen if len(seen) == len(files) else None
