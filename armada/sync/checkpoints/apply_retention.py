"""Apply the decisions of `verdicts/retention.py` to folders, the store and the host."""

from __future__ import annotations

import math
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING

from armada.foundation.metric_goals import BestBy
from armada.foundation.sanitize import sanitize_line
from armada.store import checkpoints, files_home, metrics, transfers
from armada.store.best_metric import best_by
from armada.sync.causes import is_broken
from armada.sync.checkpoints import folders, optimizers, published
from armada.sync.checkpoints.proof import Prover
from armada.sync.errors import ManifestRejected
from armada.sync.schedule import due
from armada.sync.transfer.staging import digest_of, staged
from armada.verdicts.proof import Proof
from armada.verdicts.retention import Candidate, Decision, decide_home, decide_host

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from armada.config.sync import SyncSettings
    from armada.foundation.progress import Progress
    from armada.paths import HomePaths
    from armada.store.checkpoints import Checkpoint
    from armada.store.database import Database


def candidates(database: Database, run_id: str, known: Sequence[Checkpoint]) -> list[Candidate]:
    """Return the checkpoints at home or on the host, with what was measured at their step of the metric that tells the best."""
    best = best_by(database, run_id)
    measured = {
        step: value
        for step, value in metrics.curve(database, run_id, best.name)
        if value is not None and math.isfinite(value)
    }
    called = "evaluation loss" if best == BestBy() else sanitize_line(best.name, 100)
    return [
        Candidate(
            c.digest,
            c.step,
            c.created_at or 0.0,
            best.rank(measured[c.step]) if c.step in measured else None,
            at_home=c.home_path is not None,
            on_host=c.on_host,
            acknowledged=c.acknowledged_at is not None,
            pinned=c.pinned,
            attempt=c.attempt or 0,
            measured=f"{called} {measured[c.step]:.4g}" if c.step in measured else "",
        )
        for c in known
        if c.on_host or c.home_path is not None
    ]


def wanted(database: Database, run_id: str, known: Sequence[Checkpoint], settings: SyncSettings) -> list[Checkpoint]:
    """Return the checkpoints that the settings want at home and that exist only on the host, ordered by step.

    One that turned out to be broken is tried again, but takes no other's place: where the newest cannot come, those before it do.
    """
    broken = {digest for digest, tried in transfers.of_run(database, run_id).items() if is_broken(tried)}
    found = candidates(database, run_id, known)
    whole = [c for c in found if c.digest not in broken or c.at_home]
    kept = _kept(found, settings) | _kept(whole, settings)
    return [c for c in known if c.on_host and c.home_path is None and c.digest in kept]


def unneeded(database: Database, run_id: str, known: Sequence[Checkpoint], settings: SyncSettings) -> list[Checkpoint]:
    """Return the checkpoints on the host that the settings do not want beside what is at home already, whatever else may come."""
    found = {c.digest: c for c in candidates(database, run_id, known)}
    here = [c for c in found.values() if c.at_home]
    there = [c for c in known if c.on_host and c.home_path is None]
    return [c for c in there if c.digest not in _kept([*here, found[c.digest]], settings)]


def _kept(found: Sequence[Candidate], settings: SyncSettings) -> set[str]:
    return {decision.candidate.digest for decision in decide_home(found, settings.keep_home) if decision.keep}


def tidy(database: Database, home: HomePaths, run_id: str) -> None:
    """Clean up after a killed sync, and record checkpoints that the user deleted. Call it with the run's lock held.

    Raises:
        FolderAway: Their folder is not seen: then nothing is known to be deleted.
    """
    folders.require_there(database, run_id)
    folder = home.checkpoints(run_id)
    trashed = published.names_in_trash(folder)
    known = checkpoints.of_run(database, run_id)
    deleted = [c for c in known if c.home_path is not None and folders.is_deleted(c.home_path)]
    folders.require_there(database, run_id)  # again: their disk may have gone away before they were looked at
    for checkpoint in deleted:
        if checkpoint.home_path is not None:
            files_home.forget(database, checkpoint.home_path)
        trouble = None if checkpoint.on_host else checkpoints.WAS_HOME
        if checkpoint.home_path is not None and checkpoint.home_path.name in trashed:
            trouble = due.NOT_WANTED  # retention deleted it, and was killed before it could record that
        checkpoints.mark_not_home(database, run_id, checkpoint.digest, trouble)
    published.empty_trash(folder)
    coming = {c.digest for c in known if c.on_host and c.home_path is None}
    for path in staged(folder):
        if digest_of(path) not in coming:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    gone = {c.digest for c in known if not c.on_host and c.home_path is None}
    for digest, transfer in transfers.of_run(database, run_id).items():
        if digest in gone and transfer.state != "done":
            transfers.forget(database, run_id, digest)  # a quarantine applies to content, not to its name


def plan_home(database: Database, run_id: str, settings: SyncSettings) -> list[Decision]:
    known = checkpoints.of_run(database, run_id)
    linked = {c.digest for c in known if c.home_path is not None and c.home_path.is_symlink()}
    return [
        d if d.keep or d.candidate.digest not in linked else replace(d, keep=True, reason="a link, which is yours")
        for d in decide_home(candidates(database, run_id, known), settings.keep_home)
        if d.candidate.at_home
    ]


def plan_optimizers(
    database: Database, run_id: str, settings: SyncSettings, coming: Iterable[Checkpoint] = ()
) -> list[Decision]:
    """Decide which checkpoints at home keep their optimizer states, of those that stay; none unless only the newest's is wanted."""
    if settings.include_optimizer != "last":
        return []
    going = {d.candidate.digest for d in plan_home(database, run_id, settings) if not d.keep}
    return [d for d in optimizers.plan(database, run_id, coming) if d.candidate.digest not in going]


def plan_host(
    database: Database, run_id: str, settings: SyncSettings, progress: Progress | None = None
) -> list[Decision]:
    """Decide by proof: a checkpoint counts as at home if its bytes were read and not touched since, or are read now."""
    known = checkpoints.of_run(database, run_id)
    if sum(1 for c in known if c.on_host) <= settings.keep_remote:
        return decide_host(candidates(database, run_id, known), settings.keep_remote)  # nothing can be deleted
    prover = Prover(database, progress)
    lacking = {c.digest for c in optimizers.lacking(known, settings)}
    whole = {c.digest for c in known if c.on_host and prover.prove(c) is Proof.PROVEN}
    looked = [
        Candidate(
            c.digest,
            c.step,
            c.created_at,
            c.loss,
            at_home=c.digest in whole if c.on_host else c.at_home,
            on_host=c.on_host,
            acknowledged=c.acknowledged,
            attempt=c.attempt,
            measured=c.measured,
            lacking=c.digest in lacking,
        )
        for c in candidates(database, run_id, known)
    ]
    return decide_host(looked, settings.keep_remote)


def retain_home(
    database: Database, home: HomePaths, run_id: str, settings: SyncSettings, progress: Progress | None = None
) -> list[Path]:
    """Delete at home what no rule keeps, and remove optimizer states as `include_optimizer: last` says.

    Args:
        database: The store.
        home: Where the checkpoints are.
        run_id: The run.
        settings: Its rules.
        progress: Receives what has to be read before.

    Returns:
        The folders of the deleted checkpoints; one that is still there has files that no checkpoint's manifest names.

    Raises:
        FolderAway: Their disk went away since the run's lock was taken.
    """
    by_digest = {c.digest: c for c in checkpoints.of_run(database, run_id)}
    decisions = plan_home(database, run_id, settings)
    surplus = [d for d in decisions if not d.keep]
    kept = [by_digest[d.candidate.digest] for d in decisions if d.keep]
    if surplus and not Prover(database, progress).are_proven(kept):
        return []  # what would remain is in doubt: nothing is deleted until `armada sync verify` has checked it
    deleted = []
    for decision in surplus:
        place = by_digest[decision.candidate.digest].home_path
        if place is None or checkpoints.is_pinned(database, run_id, decision.candidate.digest):
            continue  # a person may have asked for it while those that stay were read
        try:
            manifest, _ = published.read_published(place, decision.candidate.digest)
        except ManifestRejected:
            continue  # nothing says which files are the checkpoint's: `armada sync verify` mends or reports it
        folders.require_same(database, run_id)
        links = files_home.linked_to(database, place)
        looks = {path: look for _, path, _ in links if (look := files_home.Look.at(path)) is not None}
        published.delete(place, manifest)
        files_home.forget(database, place)
        checkpoints.mark_not_home(database, run_id, decision.candidate.digest, due.NOT_WANTED)
        published.empty_trash(home.checkpoints(run_id))
        files_home.record(database, links, looks)
        deleted.append(place)
    if settings.include_optimizer == "last":
        folders.require_same(database, run_id)
        optimizers.shrink(database, run_id, progress)
    return deleted


def surplus_on_host(
    database: Database, run_id: str, settings: SyncSettings, progress: Progress | None = None
) -> list[str]:
    planned = plan_host(database, run_id, settings, progress)
    return [decision.candidate.digest for decision in planned if not decision.keep]
