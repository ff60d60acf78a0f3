"""Is a checkpoint home? By what was read of it, never by its size alone.

| what is known of its files here                                             | it is    |
|-----------------------------------------------------------------------------|----------|
| all were read and right, and none was touched since (size, times, inode)    | proven   |
| some were touched since, or never read; read now, and right                 | proven   |
| some are not what the manifest says, or the manifest is not                 | damaged  |
| there is no folder                                                          | missing  |

A damage that was found before is a doubt: it ends only when every byte has been read and is right.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from armada.store import checkpoints, files_home
from armada.sync.checkpoints import published
from armada.sync.errors import ManifestRejected
from armada.sync.transfer.staging import has_size, is_right
from armada.verdicts.proof import Proof

if TYPE_CHECKING:
    from collections.abc import Callable

    from armada.store.checkpoints import Checkpoint
    from armada.store.database import Database

DOUBT = "damaged at home"
"""Begins the trouble of a checkpoint whose copy here is not what its manifest says."""


def prove(database: Database, checkpoint: Checkpoint, told: Callable[[str], None] = lambda _: None) -> Proof:
    """Say whether every byte of a checkpoint is here; reads what was not read since it was last touched.

    Args:
        database: The store; what is found is noted there.
        checkpoint: Which.
        told: Given the name of each file that has to be read.
    """
    place = checkpoint.home_path
    if place is None or not place.is_dir():
        return Proof.MISSING
    try:
        _, files = published.read_published(place, checkpoint.digest)
    except ManifestRejected:
        _doubt(database, checkpoint, "its manifest")
        return Proof.DAMAGED
    doubted = is_doubted(checkpoint)
    read = []
    for file in files:
        path = place / file.path
        if not doubted and (files_home.proven(database, path, file.sha256) if file.size else has_size(place, file)):
            continue
        told(file.path)
        if not is_right(place, file):
            files_home.forget(database, path)
            _doubt(database, checkpoint, file.path)
            return Proof.DAMAGED
        read.append((file.sha256, path, file.size))
    if read:
        files_home.record(database, read)
    if doubted:
        checkpoints.mark_home(database, checkpoint.run_id, checkpoint.digest, place)
    return Proof.PROVEN


def is_doubted(checkpoint: Checkpoint) -> bool:
    return (checkpoint.trouble or "").startswith(DOUBT)


def _doubt(database: Database, checkpoint: Checkpoint, what: str) -> None:
    checkpoints.mark_trouble(
        database, checkpoint.run_id, checkpoint.digest, f"{DOUBT}: {what} has changed since it came home"
    )
