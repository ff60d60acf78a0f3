"""Fetch a run's checkpoints now: one sync whose troubles are raised, for the command line."""

from __future__ import annotations

import dataclasses
import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from armada.errors import ArmadaError, HostUnreachable, NotFound
from armada.foundation.progress import TransfersAs
from armada.store import checkpoints, run_sync
from armada.sync.causes import as_error
from armada.sync.checkpoints.folders import is_seen, only_one_there, require_deleted
from armada.sync.checkpoints.proof import prove
from armada.sync.checkpoints.published import left_out
from armada.sync.checkpoints.repair import complete, repair
from armada.sync.checkpoints.selection import choose_checkpoint
from armada.sync.checkpoints.verify import look_at
from armada.sync.errors import FolderAway
from armada.sync.runs.sync_run import say_waiting, sync_run, sync_whole
from armada.sync.schedule.due import NOT_WANTED
from armada.verdicts.proof import Proof

if TYPE_CHECKING:
    from pathlib import Path

    from armada.foundation.progress import Progress
    from armada.paths import HomePaths
    from armada.store.checkpoints import Checkpoint
    from armada.store.database import Database
    from armada.store.runs import Run
    from armada.sync.context import SyncContext
    from armada.sync.runs.report import SyncOutcome


_PART = "pull"
"""The name under which a pull's transfers are shown."""


@dataclass(frozen=True, slots=True)
class Pulled:
    """What one pull did: published checkpoints, their bytes, and how many were at home before.

    `repaired`: whether a checkpoint at home was damaged, and was mended. `completed`: the number of files added to
    a checkpoint that was at home without them. `lacking`: why it stays without some files.
    """

    published: tuple[Path, ...]
    size_bytes: int
    already: int
    completed: int = 0
    repaired: bool = False
    lacking: str | None = None


def pull(
    context: SyncContext,
    *,
    progress: Progress,
    only: Checkpoint | None = None,
) -> Pulled:
    """Fetch what the run's settings want; or one checkpoint, complete, whatever the settings want.

    Args:
        context: The run and its host.
        progress: Receives the transfers, their progress and waits.
        only: The one checkpoint.

    Raises:
        DiskFull: Something does not fit at home.
        SourceChanged: A file stays wrong after three fetches.
        ManifestRejected: A manifest breaks a rule.
        HostUnreachable: The link stayed down; the received bytes stay in staging.
        FolderAway: The run's folder at home is not seen.
        ArmadaError: The one checkpoint is damaged at home, and its host has no intact copy.
    """
    if only is not None:
        database, run_id = context.database, context.run_id
        if only.home_path is not None and is_seen(only.home_path):
            checkpoints.pin(database, run_id, only.digest)  # or a sync that goes on now may delete it
        with only_one_there(database, context.home, run_id, lambda: say_waiting(progress, run_id)):
            only = _now(database, only)
            proof = prove(database, only, functools.partial(_say_reading, progress, only))
            only = _now(database, only)
            is_home = proof is not Proof.MISSING
            if only.home_path is not None and not is_home:
                require_deleted(database, only)
                checkpoints.mark_not_home(database, run_id, only.digest, None)  # the user deleted it, and wants it back
            checkpoints.pin(database, run_id, only.digest)  # or the next sync would delete what the user just requested
            if is_home:
                repaired = proof is Proof.DAMAGED and _repair(context, only, progress)
                return dataclasses.replace(_make_whole(context, only, progress), repaired=repaired)
    told = TransfersAs(_PART, progress)
    if only is None:
        return _pulled(sync_whole(context, progress=told))
    return _pulled(sync_run(context, progress=told, insist=True, only=only.digest))


def _now(database: Database, chosen: Checkpoint) -> Checkpoint:
    """Return what the store says of a checkpoint now, with the run's lock held: a sync may have deleted it meanwhile."""
    known = {each.digest: each for each in checkpoints.of_run(database, chosen.run_id)}
    return known.get(chosen.digest) or dataclasses.replace(chosen, home_path=None)


def _pulled(outcome: SyncOutcome) -> Pulled:
    if outcome.troubles:
        raise outcome.troubles[0].error
    return Pulled(outcome.published, outcome.size_bytes, outcome.already)


def pull_from_home(
    database: Database, home: HomePaths, run: Run, word: str | None, why: ArmadaError, progress: Progress
) -> tuple[Pulled, Checkpoint | None]:
    """Return the result of a pull without the host: what is at home is there, and nothing more is fetched.

    Args:
        database: The store.
        home: Where the checkpoints are.
        run: The run.
        word: The requested checkpoint; None for all.
        why: Why the host cannot be contacted.
        progress: Receives a wait.

    Raises:
        NotFound: The requested checkpoint is not at home.
        ArmadaError: `why`, if something may still be on the host, or what is at home is damaged.
    """
    if word is None:
        known = checkpoints.of_run(database, run.run_id)
        here = [c for c in known if c.home_path is not None and c.home_path.is_dir()]
        left = [c for c in known if c not in here and c.nowhere is None and c.trouble != NOT_WANTED]
        for checkpoint in here:
            _require_proven(database, checkpoint, why, progress)
        if left or run.is_guess or not run.ended or not run_sync.find(database, run.run_id).final_done:
            raise why
        return Pulled((), 0, len(here)), None
    only = choose_checkpoint(database, None, run, word)
    if only.home_path is None or not only.home_path.is_dir():
        raise why
    checkpoints.pin(database, run.run_id, only.digest)  # or a sync that goes on now may delete it
    with only_one_there(database, home, run.run_id, lambda: say_waiting(progress, run.run_id)):
        only = _now(database, only)
        if only.home_path is None or not only.home_path.is_dir():
            raise why
        checkpoints.pin(database, run.run_id, only.digest)
        _require_proven(database, only, why, progress)
        lacking = why.message if left_out(only.home_path) else None
        return Pulled((), 0, 1, lacking=lacking), only


def _require_proven(database: Database, checkpoint: Checkpoint, why: ArmadaError, progress: Progress) -> None:
    """Refuse to call a checkpoint home of which not every byte is here.

    Raises:
        ArmadaError: It is damaged, or not seen, with the reason why its host cannot be asked.
    """
    if prove(database, checkpoint, functools.partial(_say_reading, progress, checkpoint)) is Proof.PROVEN:
        return
    name, run_id = f"checkpoint-{checkpoint.step}", checkpoint.run_id
    what = f"{name} of {run_id} is damaged at home or not seen there, and its host cannot be asked: {why.message}"
    kind = HostUnreachable if isinstance(why, HostUnreachable) else NotFound
    raise kind(what, hint=f"armada sync verify {run_id} --read-data", host=why.host) from why


def _say_reading(progress: Progress, checkpoint: Checkpoint, name: str) -> None:
    progress.now("reading", f"{checkpoint.run_id}: checkpoint-{checkpoint.step}/{name}")


def _repair(context: SyncContext, checkpoint: Checkpoint, progress: Progress) -> bool:
    """Fetch again what is damaged of a checkpoint at home; call it with the run's lock held.

    Returns:
        Whether anything was.

    Raises:
        HostUnreachable, FolderAway: As in `pull`.
        ArmadaError: It stays damaged.
    """
    place = checkpoint.home_path
    if place is None:
        return False
    finding = look_at(context.database, checkpoint, place, read_data=True)
    if finding.good:
        return False
    tell = functools.partial(progress.transfer, _PART, f"checkpoint-{checkpoint.step}")
    try:
        repair(context, finding, tell, locked=True)
    except (HostUnreachable, FolderAway):
        raise
    except (ArmadaError, OSError) as error:
        problem = as_error(error, host=context.host)
        what = f"{place} is damaged, and could not be repaired: {problem.message}"
        raise ArmadaError(what, hint=problem.hint, host=problem.host) from error
    return True


def _make_whole(context: SyncContext, checkpoint: Checkpoint, progress: Progress) -> Pulled:
    """Add what was left out of a checkpoint at home; call it with the run's lock held.

    If that no longer exists, the checkpoint stays usable without it.
    """
    tell = functools.partial(progress.transfer, _PART, f"checkpoint-{checkpoint.step}")
    try:
        return Pulled((), 0, 1, completed=complete(context, checkpoint, tell))
    except (HostUnreachable, NotFound) as error:
        return Pulled((), 0, 1, lacking=f"{context.host}: {error.message}")
