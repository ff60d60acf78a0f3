"""Find files below work/ that no `sync.outputs` pattern matches but that are at home all the same, as files of a checkpoint.

A script leaves its checkpoints where it wrote them, and copies the best one. Those bytes are at home, so a release need
not report them. A name or a size is no evidence: the host hashes each file whose size matches one at home, and home's
file must be proven.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from armada.protocol.message import Misfit
from armada.protocol.sync import HashFiles, ListOutboxes, RunToList
from armada.store import checkpoints
from armada.sync.checkpoints import published
from armada.sync.checkpoints.proof import prove
from armada.sync.errors import ManifestRejected
from armada.verdicts.proof import Proof

if TYPE_CHECKING:
    from collections.abc import Sequence

    from armada.protocol.sync import RunListing
    from armada.store.checkpoints import Checkpoint
    from armada.store.database import Database
    from armada.sync.context import SyncContext

_HASHED_AT_ONCE = 200


@dataclass(frozen=True, slots=True)
class Unnamed:
    """Files of a run that no `sync.outputs` pattern matches: their number, their total size, and some of their paths."""

    count: int = 0
    size_bytes: int = 0
    examples: Sequence[str] = ()


def read_unnamed(entry: RunListing) -> Unnamed:
    """Read a run's part of a `sync.look` answer."""
    if (others := entry.others) is None:
        return Unnamed()
    return Unnamed(others.count or 0, others.size_bytes or 0, others.examples)


def without_those_at_home(context: SyncContext, outputs: Sequence[str], unnamed: Unnamed) -> Unnamed:
    """Leave out the files whose bytes are in a checkpoint that is proven to be at home.

    Args:
        context: The run and its host.
        outputs: The run's `sync.outputs`.
        unnamed: The files that the host counted.

    Raises:
        HostUnreachable: Nothing can be decided.
    """
    here = _files_at_home(context.database, context.run_id)
    if not unnamed.count or not here:
        return unnamed
    asked = RunToList(run_id=context.run_id, outputs=tuple(outputs), list_others=True)
    (entry,) = context.session.call(ListOutboxes(runs=(asked,)), timeout_s=300.0).runs[:1] or (None,)
    if entry is None or isinstance(entry, Misfit):
        return unnamed
    listed = [(path, size) for path, size in dict(entry.others.files if entry.others else ()).items() if size]
    sizes = {size for size, _ in here}
    alike = [(path, size) for path, size in listed if size in sizes]
    home = _same(context, alike, here)
    if not home:
        return unnamed
    again = read_unnamed(entry)
    left = [path for path, _ in listed if path not in home]
    return Unnamed(again.count - len(home), again.size_bytes - sum(home.values()), left or again.examples)


def _same(
    context: SyncContext, alike: Sequence[tuple[str, int]], here: dict[tuple[int, str], list[Checkpoint]]
) -> dict[str, int]:
    """Return the files whose hash a proven checkpoint contains, with their sizes."""
    proofs: dict[str, bool] = {}

    def is_proven(checkpoint: Checkpoint) -> bool:
        if checkpoint.digest not in proofs:
            proofs[checkpoint.digest] = prove(context.database, checkpoint) is Proof.PROVEN
        return proofs[checkpoint.digest]

    same = {}
    for start in range(0, len(alike), _HASHED_AT_ONCE):
        batch = alike[start : start + _HASHED_AT_ONCE]
        hashes = context.session.call(HashFiles(run_id=context.run_id, files=tuple(batch)), timeout_s=1800.0)
        for (path, size), sha256 in zip(batch, hashes.sha256, strict=False):
            if sha256 is not None and any(is_proven(each) for each in here.get((size, sha256), ())):
                same[path] = size
    return same


def _files_at_home(database: Database, run_id: str) -> dict[tuple[int, str], list[Checkpoint]]:
    """Return the run's published checkpoints that contain a file, by the file's size and SHA-256."""
    found: dict[tuple[int, str], list[Checkpoint]] = {}
    for checkpoint in checkpoints.of_run(database, run_id):
        if checkpoint.home_path is None:
            continue
        try:
            _, files = published.read_published(checkpoint.home_path, checkpoint.digest)
        except ManifestRejected:
            continue
        for file in files:
            if file.size:
                found.setdefault((file.size, file.sha256), []).append(checkpoint)
    return found
