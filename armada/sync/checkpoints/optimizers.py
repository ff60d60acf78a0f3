"""Optimizer states at home: which come, which go, and which are missing, as `sync.include_optimizer` says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from armada.store import checkpoints, files_home
from armada.sync.checkpoints import published
from armada.sync.checkpoints.proof import Prover
from armada.sync.errors import ManifestRejected
from armada.verdicts.retention import Candidate, Decision, decide_optimizers, is_resume_only

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from armada.config.sync import SyncSettings
    from armada.foundation.progress import Progress
    from armada.store.checkpoints import Checkpoint
    from armada.store.database import Database
    from armada.sync.checkpoints.manifest import Manifest


def left_out_of(
    checkpoint: Checkpoint, database: Database, settings: SyncSettings
) -> Callable[[Manifest], Sequence[str]]:
    """Return a function that lists the files of a checkpoint which the settings do not want."""
    known = checkpoints.of_run(database, checkpoint.run_id)
    whole = _wanted_whole((c for c in known if c.on_host or c.home_path is not None), settings)

    def choose(manifest: Manifest) -> list[str]:
        return [] if checkpoint.digest in whole else _resume_files(manifest)

    return choose


def lacking(known: Iterable[Checkpoint], settings: SyncSettings) -> list[Checkpoint]:
    """Return the checkpoints at home that lack files which the settings want there.

    The newest one lacks its optimizer state if it came while a newer one was known that never came.
    """
    here = [c for c in known if c.home_path is not None]
    whole = _wanted_whole(here, settings)
    return [c for c in here if c.digest in whole and _lacks_files(c)]


def plan(database: Database, run_id: str, coming: Iterable[Checkpoint] = ()) -> list[Decision]:
    """Decide which checkpoints at home keep the optimizer state that they have, where only the newest's is wanted.

    Args:
        database: The store.
        run_id: The run.
        coming: Checkpoints that would come before, and are taken to have theirs.
    """
    here = {c.digest: c for c in checkpoints.of_run(database, run_id) if _states_of(c)}
    decisions = decide_optimizers([_candidate(c) for c in (*here.values(), *coming)])
    return [d for d in decisions if d.candidate.digest in here]


def shrink(database: Database, run_id: str, progress: Progress | None = None) -> None:
    """Delete the optimizer states at home of all checkpoints but the newest that have theirs.

    Nothing is deleted while the ones that stay are not proven: then an older one may be all that a resume has.
    """
    decisions = plan(database, run_id)
    complete = {c.digest: c for c in checkpoints.of_run(database, run_id)}
    surplus = [complete[d.candidate.digest] for d in decisions if not d.keep]
    kept = [complete[d.candidate.digest] for d in decisions if d.keep]
    if not surplus or not Prover(database, progress).are_proven(kept):
        return
    for checkpoint in surplus:
        place, states = checkpoint.home_path, _states_of(checkpoint)
        # A person may have asked for it while those that stay were read.
        if place is not None and not checkpoints.is_pinned(database, run_id, checkpoint.digest):
            for name in states:
                files_home.forget(database, place / name)
            published.strip(place, states)


def _lacks_files(checkpoint: Checkpoint) -> bool:
    if checkpoint.home_path is None:
        return False
    try:
        return bool(published.left_out(checkpoint.home_path))
    except (OSError, ManifestRejected):
        return False  # nobody can tell; its proof is that it is damaged


def _wanted_whole(known: Iterable[Checkpoint], settings: SyncSettings) -> set[str]:
    """Return the digests of the checkpoints that the settings want whole."""
    known = list(known)
    if settings.include_optimizer is True:
        return {c.digest for c in known}
    if settings.include_optimizer == "last":
        return {d.candidate.digest for d in decide_optimizers([_candidate(c) for c in known]) if d.keep}
    return {c.digest for c in known if c.pinned}


def _states_of(checkpoint: Checkpoint) -> list[str]:
    """Return the files at home that only a resume needs; none if some of them were left out, or its manifest is damaged."""
    if checkpoint.home_path is None or checkpoint.home_path.is_symlink():  # what is behind a link is a person's
        return []
    try:
        manifest, files = published.read_published(checkpoint.home_path, checkpoint.digest)
    except ManifestRejected:
        return []  # `armada sync verify` reports the problem
    states = set(_resume_files(manifest))
    return sorted(states) if states <= {file.path for file in files} else []


def _resume_files(manifest: Manifest) -> list[str]:
    found = [file.path for file in manifest.files if is_resume_only(file.path)]
    return found if len(found) < len(manifest.files) else []


def _candidate(checkpoint: Checkpoint) -> Candidate:
    return Candidate(
        checkpoint.digest,
        checkpoint.step,
        checkpoint.created_at or 0.0,
        pinned=checkpoint.pinned,
        attempt=checkpoint.attempt or 0,
    )
