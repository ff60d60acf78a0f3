"""Decide whether a checkpoint is at home, from its bytes and never from its size alone.

| what is known of its files here                                            | it is   |
|----------------------------------------------------------------------------|---------|
| all were read and correct, and none was touched since (size, times, inode) | proven  |
| some were touched since, or never read; read now, and correct              | proven  |
| some do not match the manifest, or the manifest does not match its digest  | damaged |
| its disk takes two of their names for one                                  | damaged |
| there is no folder, or it is not seen                                      | missing |

Damage that was found before is a doubt. It ends only when every byte has been read and is correct.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from armada.foundation.progress import NullProgress
from armada.store import checkpoints, files_home
from armada.store.files_home import Look
from armada.sync.checkpoints import published
from armada.sync.checkpoints.folders import is_seen
from armada.sync.checkpoints.names import find_hidden
from armada.sync.errors import ManifestRejected
from armada.sync.transfer.staging import has_size, read_right
from armada.verdicts.proof import Proof

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from armada.foundation.progress import Progress
    from armada.store.checkpoints import Checkpoint
    from armada.store.database import Database

DOUBT = "damaged at home"
"""The beginning of `trouble` for a checkpoint whose copy here does not match its manifest."""


def prove(database: Database, checkpoint: Checkpoint, told: Callable[[str], None] = lambda _: None) -> Proof:
    """Decide whether every byte of a checkpoint is here; read the files that were touched since they were last read.

    Args:
        database: The store; the result is recorded there.
        checkpoint: The checkpoint.
        told: Called with the name of each file that has to be read.
    """
    place = checkpoint.home_path
    if place is None or not is_seen(place):
        return Proof.MISSING
    try:
        _, files = published.read_published(place, checkpoint.digest)
    except ManifestRejected:
        if not is_seen(place):
            return Proof.MISSING  # it went away meanwhile, with its disk or without
        doubt(database, checkpoint, "its manifest")
        return Proof.DAMAGED
    if (hidden := find_hidden(place, files)) is not None:
        doubt(database, checkpoint, hidden)
        return Proof.DAMAGED
    doubted = is_doubted(checkpoint)
    read, seen = [], {}
    for file in files:
        path = place / file.path
        if not doubted and (files_home.proven(database, path, file.sha256) if file.size else has_size(place, file)):
            continue
        told(file.path)
        if (look := read_right(place, file)) is None:
            if not is_seen(place):
                return Proof.MISSING
            if checkpoint.is_unread:  # it was read now
                checkpoints.mark_home(database, checkpoint.run_id, checkpoint.digest, place)
            doubt(database, checkpoint, file.path)
            return Proof.DAMAGED
        read.append((file.sha256, path, file.size))
        seen[path] = look
    now = {path: Look.at(path) for path in seen}
    untouched = [(sha256, path, size) for sha256, path, size in read if now[path] == seen[path]]
    if untouched:
        files_home.record(database, untouched, seen)
    if not all(look.is_of_the_same_bytes(now[path]) for path, look in seen.items()):
        return Proof.DAMAGED  # somebody wrote to it meanwhile: it is read again the next time
    if doubted:
        checkpoints.mark_home(database, checkpoint.run_id, checkpoint.digest, place)
    return Proof.PROVEN


def is_doubted(checkpoint: Checkpoint) -> bool:
    """Whether the copy at home was found damaged, or nobody read it."""
    return checkpoint.is_unread or (checkpoint.trouble or "").startswith(DOUBT)


def doubt(database: Database, checkpoint: Checkpoint, what: str) -> None:
    """Record that a file of a checkpoint at home is not as it came; its bytes count as unread from now on."""
    if checkpoint.home_path is not None:
        files_home.forget(database, checkpoint.home_path / what)
    checkpoints.mark_trouble(
        database, checkpoint.run_id, checkpoint.digest, f"{DOUBT}: {what} has changed since it came home"
    )


class Prover:
    """Proves checkpoints for one verdict, each once: the same damaged one may be asked about for every other.

    Args:
        database: The store.
        progress: Receives the name of each file that has to be read: all of a run may be a terabyte.
    """

    def __init__(self, database: Database, progress: Progress | None = None) -> None:
        self._database = database
        self._progress = progress or NullProgress()
        self._found: dict[tuple[str, str], Proof] = {}

    def prove(self, checkpoint: Checkpoint) -> Proof:
        """Decide whether every byte of a checkpoint is here; see `prove`."""
        key = (checkpoint.run_id, checkpoint.digest)
        if key not in self._found:
            what = f"{checkpoint.run_id}: checkpoint-{checkpoint.step}"
            tell = self._progress.now
            self._found[key] = prove(self._database, checkpoint, lambda name: tell("reading", f"{what}/{name}"))
        return self._found[key]

    def are_proven(self, known: Iterable[Checkpoint]) -> bool:
        """Whether every byte of all of these is here."""
        return all(self.prove(checkpoint) is Proof.PROVEN for checkpoint in known)
