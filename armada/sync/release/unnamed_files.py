"""Files below work/ that no `sync.outputs` names: which of them are at home all the same, as files of a checkpoint.

A script leaves its checkpoints where it wrote them, and copies the best one. These bytes are home, so a release has nothing to say of
them. A name or a size is no evidence: the host hashes each file whose size is that of one at home, and home's file must be proven.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from armada.foundation.validation import mapping, positive
from armada.store import checkpoints
from armada.sync.checkpoints import published
from armada.sync.checkpoints.proof import prove
from armada.sync.errors import ManifestRejected
from armada.verdicts.proof import Proof

if TYPE_CHECKING:
    from collections.abc import Sequence

    from armada.store.checkpoints import Checkpoint
    from armada.store.database import Database
    from armada.sync.context import SyncContext

_HASHED_AT_ONCE = 200


@dataclass(frozen=True, slots=True)
class Unnamed:
    """Files of a run that no `sync.outputs` names: how many, how large together, and some of their paths."""

    count: int = 0
    size_bytes: int = 0
    examples: Sequence[str] = ()


def read_unnamed(entry: dict[str, Any]) -> Unnamed:
    """Read the part of a `sync.look` answer; what makes no sense counts as nothing there."""
    others = mapping(entry.get("others"))
    examples = others.get("examples")
    listed = [each for each in examples if isinstance(each, str)] if isinstance(examples, list) else []
    return Unnamed(positive(others.get("count")), positive(others.get("size_bytes")), listed)


def without_those_at_home(context: SyncContext, outputs: Sequence[str], unnamed: Unnamed) -> Unnamed:
    """Leave out the files whose very bytes are in a checkpoint that is proven to be home.

    Args:
        context: The run and its host.
        outputs: The run's `sync.outputs`.
        unnamed: What the host counted.

    Raises:
        HostUnreachable: Nothing can be said then.
    """
    here = _files_at_home(context.database, context.run_id)
    if not unnamed.count or not here:
        return unnamed
    question = {"run_id": context.run_id, "outputs": list(outputs), "list_others": True}
    answer = context.session.call("sync.look", {"runs": [question]}, timeout_s=300.0).get("runs")
    entry = mapping(answer[0]) if isinstance(answer, list) and answer else {}
    listed = _listed(mapping(entry.get("others")).get("files"))
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
    """The files, with their sizes, whose hash a proven checkpoint has."""
    proofs: dict[str, bool] = {}

    def is_proven(checkpoint: Checkpoint) -> bool:
        if checkpoint.digest not in proofs:
            proofs[checkpoint.digest] = prove(context.database, checkpoint) is Proof.PROVEN
        return proofs[checkpoint.digest]

    same = {}
    for start in range(0, len(alike), _HASHED_AT_ONCE):
        batch = alike[start : start + _HASHED_AT_ONCE]
        question = {"run_id": context.run_id, "files": [list(each) for each in batch]}
        hashes = context.session.call("sync.hash", question, timeout_s=1800.0).get("sha256")
        for (path, size), sha256 in zip(batch, hashes if isinstance(hashes, list) else [], strict=False):
            if isinstance(sha256, str) and any(is_proven(each) for each in here.get((size, sha256), ())):
                same[path] = size
    return same


def _files_at_home(database: Database, run_id: str) -> dict[tuple[int, str], list[Checkpoint]]:
    """Size and SHA-256 of each file of the run's published checkpoints, and which of these have it."""
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


def _listed(value: object) -> list[tuple[str, int]]:
    found = {}
    for each in value if isinstance(value, list) else []:
        if isinstance(each, list) and len(each) == 2 and isinstance(each[0], str) and positive(each[1]):
            found[each[0]] = each[1]
    return list(found.items())
