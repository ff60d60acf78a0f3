"""Find files below work/ that no `sync.outputs` pattern matches but whose bytes are at home all the same.

A script leaves its checkpoints where it wrote them, copies the best one, and copies its results. Those bytes are at
home, as files of a checkpoint or as outputs, so a release need not report them.

| evidence of a file there                                                  | it is at home |
|---------------------------------------------------------------------------|---------------|
| its name, its size or its time                                            | no            |
| its hash, read there now, is that of a file of a checkpoint proven here   | yes           |
| … is that of an output read here now and untouched since it was fetched   | yes           |
| … of an output that differs from what the host has of it now              | no            |
| it is longer than the hashed bytes: it grew after it was listed           | no            |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from armada.protocol.message import Misfit
from armada.protocol.sync import HashFiles, ListOutboxes, RunToList
from armada.store import checkpoints
from armada.sync.checkpoints import published
from armada.sync.errors import ManifestRejected
from armada.sync.outputs.download import not_at_home
from armada.sync.outputs.listing import FOLDER, read_index, read_listing, touched, touched_when_fetched
from armada.sync.transfer.interface import File
from armada.sync.transfer.staging import is_right
from armada.verdicts.proof import Proof

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from armada.protocol.sync import RunListing
    from armada.store.checkpoints import Checkpoint
    from armada.store.database import Database
    from armada.sync.checkpoints.proof import Prover
    from armada.sync.context import SyncContext

_HASHED_AT_ONCE = 200


@dataclass(frozen=True, slots=True)
class Unnamed:
    """Files of a run that no `sync.outputs` pattern matches: their number, their total size, and some of their paths."""

    count: int = 0
    size_bytes: int = 0
    examples: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class _Outputs:
    """The outputs at home whose bytes may count: their folder, its index, and their paths by size."""

    folder: Path
    index: Mapping[str, Sequence[float]]
    by_size: Mapping[int, Sequence[str]]

    def have(self, size: int, sha256: str) -> bool:
        """Read those of this size; whether one has this hash, and was not touched since it was fetched until it was read."""
        return any(
            is_right(self.folder, File(path, size, sha256))
            and touched_when_fetched(self.index.get(path, ())) == touched(self.folder / path)
            for path in self.by_size.get(size, ())
        )


def read_unnamed(entry: RunListing) -> Unnamed:
    """Read a run's part of a `sync.look` answer."""
    if (others := entry.others) is None:
        return Unnamed()
    return Unnamed(others.count or 0, others.size_bytes or 0, others.examples)


def without_those_at_home(context: SyncContext, prover: Prover, outputs: Sequence[str], unnamed: Unnamed) -> Unnamed:
    """Leave out the files whose bytes are at home, in a proven checkpoint or an output that was read now.

    Args:
        context: The run and its host.
        prover: Reads checkpoints at home.
        outputs: The run's `sync.outputs`.
        unnamed: The files that the host counted.

    Raises:
        HostUnreachable: Nothing can be decided.
    """
    if not unnamed.count:
        return unnamed
    here = _files_at_home(context.database, context.run_id)
    folder = context.home.run(context.run_id) / FOLDER
    index = read_index(folder)
    if not here and not index:
        return unnamed
    asked = RunToList(run_id=context.run_id, outputs=tuple(outputs), list_others=True)
    (entry,) = context.session.call(ListOutboxes(runs=(asked,)), timeout_s=300.0).runs[:1] or (None,)
    if entry is None or isinstance(entry, Misfit):
        return unnamed
    listed = dict(entry.others.files if entry.others else ())
    results = _Outputs(folder, index, _outputs_at_home(context, entry))
    sizes = {size for size, _ in here} | set(results.by_size)
    alike = [(path, size) for path, size in listed.items() if size and size in sizes]
    home = _same(context, prover, alike, here, results)
    if not home:
        return unnamed
    again = read_unnamed(entry)
    left = [path for path in dict.fromkeys((*again.examples, *listed)) if path not in home]
    return Unnamed(again.count - len(home), again.size_bytes - sum(home.values()), left)


def _same(
    context: SyncContext,
    prover: Prover,
    alike: Sequence[tuple[str, int]],
    here: dict[tuple[int, str], list[Checkpoint]],
    results: _Outputs,
) -> dict[str, int]:
    """Return the files whose hash a proven checkpoint or an output at home has, with their sizes."""
    same = {}
    for start in range(0, len(alike), _HASHED_AT_ONCE):
        batch = alike[start : start + _HASHED_AT_ONCE]
        for (path, size), sha256 in zip(batch, _hashes_there(context, batch), strict=False):
            if sha256 is None:
                continue
            same_bytes = here.get((size, sha256), ())
            if any(prover.prove(each) is Proof.PROVEN for each in same_bytes) or results.have(size, sha256):
                same[path] = size
    return same


def _hashes_there(context: SyncContext, batch: Sequence[tuple[str, int]]) -> list[str | None]:
    """Hash files on the host; None for one that is shorter or longer than listed.

    The host hashes as many bytes as it is asked for, so a byte behind them is asked for, too: there must be none.
    """
    asked = [entry for path, size in batch for entry in ((path, size), (path, 1, size))]
    answer = context.session.call(HashFiles(run_id=context.run_id, files=tuple(asked)), timeout_s=1800.0)
    if len(answer.sha256) != len(asked):
        return [None] * len(batch)
    pairs = zip(answer.sha256[::2], answer.sha256[1::2], strict=True)
    return [whole if behind is None else None for whole, behind in pairs]


def _outputs_at_home(context: SyncContext, entry: RunListing) -> dict[int, list[str]]:
    """Return the outputs at home, by size, that armada fetched, that nobody touched since, and that the host has as they are.

    One that differs there may be fetched again and replaced: then its bytes would be nowhere.
    """
    listed, _ = read_listing(entry)
    different = {item.path for item in not_at_home(context, listed)}
    found: dict[int, list[str]] = {}
    for item in listed:
        if item.size_bytes and item.path not in different:
            found.setdefault(item.size_bytes, []).append(item.path)
    return found


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
