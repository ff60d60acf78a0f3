"""Find the merged model of an adapter among the runs: `armada merge` makes it, an export takes what came home."""

from __future__ import annotations

from typing import TYPE_CHECKING

from armada.errors import NotFound, UsageError
from armada.export.subject import Kind, find_subject
from armada.foundation.validation import mapping
from armada.store import checkpoints, runs

if TYPE_CHECKING:
    from armada.export.subject import Subject
    from armada.store.database import Database
    from armada.store.runs import Run


def find_merged(database: Database, run: Run, word: str, *, everything: bool) -> Subject:
    """Return the merged model of an adapter, or of shards, at home.

    Args:
        database: The store.
        run: The training; or the run of a merge, whose result is meant.
        word: The training's checkpoint, as in `find_subject`.
        everything: As in `find_subject`.

    Raises:
        UsageError: The checkpoint is no adapter, and not in shards.
        NotFound: It was not merged, or the merged model is not at home.
        ArmadaError: The copy at home is damaged.
    """
    if run.task == "merge":
        return find_subject(database, run, word, everything=everything)
    adapter = find_subject(database, run, word, everything=everything, shards=True)
    checkpoint = adapter.checkpoint
    if adapter.kind is not Kind.ADAPTER and not adapter.has_shards:
        raise UsageError(
            f"checkpoint-{checkpoint.step} of {run.run_id} is no adapter: there is nothing to merge",
            hint="leave out --merge",
        )
    merges = [each for each in runs.every(database) if each.task == "merge" and _merges(database, each, adapter)]
    for merge in sorted(merges, key=lambda each: each.created_at, reverse=True):
        if any(each.is_good_home for each in checkpoints.of_run(database, merge.run_id)):
            return find_subject(database, merge, "last", everything=everything)
    if running := [each for each in merges if not each.ended]:
        raise NotFound(
            f"{running[0].run_id} still merges checkpoint-{checkpoint.step} of {run.run_id}",
            hint=f"armada logs {running[0].run_id} --follow",
        )
    if done := [each for each in merges if each.state == "succeeded"]:
        raise NotFound(
            f"the model that {done[-1].run_id} merged of checkpoint-{checkpoint.step} is not at home",
            hint=f"armada pull {done[-1].run_id}",
        )
    raise NotFound(
        f"checkpoint-{checkpoint.step} of {run.run_id} was not merged yet",
        hint=f"armada merge {run.run_id} --checkpoint {checkpoint.step} --follow, then the same export again",
    )


def _merges(database: Database, merge: Run, adapter: Subject) -> bool:
    """Tell whether a run merges this very checkpoint."""
    said = mapping(mapping(runs.spec(database, merge.run_id).get("experiment")).get("merge"))
    return said.get("run") == adapter.run.run_id and said.get("checkpoint") == adapter.checkpoint.digest
