"""Sync one run, and record the outcome."""

from __future__ import annotations

import dataclasses
import time
from typing import TYPE_CHECKING

from armada.config.sync import settings_of
from armada.errors import ArmadaError
from armada.foundation.backoff import jitter_roll
from armada.foundation.progress import NullProgress
from armada.store import run_sync, runs
from armada.sync.causes import as_error, cause_of
from armada.sync.checkpoints.folders import find_changed, only_one_there
from armada.sync.checkpoints.lock import leave
from armada.sync.errors import RunBusy
from armada.sync.runs.run_syncer import RunSyncer
from armada.sync.schedule import due as schedule
from armada.units import counted

if TYPE_CHECKING:
    from collections.abc import Callable

    from armada.foundation.progress import Progress
    from armada.store.database import Database
    from armada.sync.context import SyncContext
    from armada.sync.runs.outbox_listing import OutboxListing
    from armada.sync.runs.report import SyncOutcome

HASHING_S = 2.0
"""Interval of polls while a host hashes a checkpoint, in seconds."""


def sync_run(
    context: SyncContext,
    *,
    progress: Progress | None = None,
    now: Callable[[], float] = time.time,
    insist: bool = False,
    only: str | None = None,
    looked: OutboxListing | None = None,
) -> SyncOutcome:
    """Fetch what a run has and its settings want; then apply retention at home and on the host.

    Args:
        context: The run and its host.
        progress: Receives the progress.
        now: The clock.
        insist: Retry what was given up, however recently.
        only: Digest of the one checkpoint to fetch, wanted by the settings or not; nothing is deleted then.
        looked: The host's listing from a moment ago, if there is one.

    Raises:
        HostUnreachable: The link stayed down; the received bytes stay in staging. All other failures are in the
            outcome.
    """
    began = now()
    progress = progress or NullProgress()
    syncer = RunSyncer(context, progress, now, insist=insist)
    outcome = try_sync(syncer, only, looked, most=None, wait=lambda: say_waiting(progress, context.run_id))
    return outcome if only is not None else record_outcome(context, outcome, began, now)


def sync_whole(
    context: SyncContext,
    *,
    progress: Progress,
    pause: Callable[[float], None] = time.sleep,
) -> SyncOutcome:
    """Sync everything for a user who waits for it, including what the host has yet to hash.

    Args:
        context: The run and its host.
        progress: Receives the progress.
        pause: Waits between two polls.

    Raises:
        HostUnreachable: As in `sync_run`.
    """
    outcome = sync_run(context, progress=progress, insist=True)
    while outcome.finishing:
        progress.now("hashing", f"{counted(outcome.finishing, 'checkpoint')} on {context.host}")
        pause(HASHING_S)
        outcome = outcome.then(sync_run(context, progress=progress, insist=True))
    return outcome


def say_waiting(progress: Progress, run_id: str) -> None:
    """Tell a person why nothing happens."""
    progress.stage("waiting", f"another armada command to finish with {run_id}")


def try_sync(
    syncer: RunSyncer,
    only: str | None,
    looked: OutboxListing | None,
    *,
    most: int | None,
    wait: Callable[[], None] = lambda: None,
) -> SyncOutcome:
    """Sync, and record the error if it ended early.

    Args:
        syncer: The steps.
        only: As in `sync_run`.
        looked: As in `sync_run`.
        most: How many checkpoints to fetch; None for all.
        wait: Called if another command works on the run's checkpoints, before that is waited for. It may raise `RunBusy`.
    """
    context = syncer.context
    checkpoints = context.home.checkpoints(context.run_id)
    try:
        with only_one_there(context.database, context.home, context.run_id, wait) as waited:
            if not runs.is_known(context.database, context.run_id):
                leave(checkpoints)
            runs.require(context.database, context.run_id)
            return syncer.run(only, None if waited else looked, most)
    except OSError as error:
        problem = find_changed(context.database, context.run_id) or as_error(error, host=context.host)
        record_failure(context.database, context.run_id, problem, syncer.now())
        raise problem from error
    except RunBusy:
        raise
    except ArmadaError as error:
        record_failure(context.database, context.run_id, error, syncer.now())
        raise


def record_outcome(context: SyncContext, outcome: SyncOutcome, began: float, now: Callable[[], float]) -> SyncOutcome:
    """Record the outcome of a sync that ran to its end; return the updated outcome."""
    database, run_id = context.database, context.run_id
    hard = [trouble for trouble in outcome.troubles if trouble.cause != "rejected"]
    if outcome.saw_end and not outcome.final:
        run_sync.reopen(database, run_id)  # it may have been declared final before something of it was lost here
    if hard:
        record_failure(database, run_id, hard[0].error, now())
    elif (outcome.saw_end or _lags_behind_end(context, outcome, now())) and not outcome.final:
        # Nothing failed this time only because the retry was not due, or the host has yet to show the end. This must not look
        # as if everything were at home; and a run that has ended is otherwise due again after seconds.
        record_failure(database, run_id, ArmadaError(outcome.missing or ""), now())
    else:
        due = began + settings_of(runs.spec(database, run_id)).every_s
        ended = outcome.submission if outcome.final else None
        is_last = run_sync.succeeded(
            database,
            run_id,
            began=began,
            next_due_at=due,
            final_of=ended,
            on_host=outcome.on_host,
            left_there=outcome.left_there,
        )
        if outcome.final and not is_last:
            return dataclasses.replace(outcome, missing=_what_came(context, outcome))
    return outcome


def _lags_behind_end(context: SyncContext, outcome: SyncOutcome, now: float) -> bool:
    return outcome.lags and runs.find(context.database, context.run_id).is_settled(now)


def _what_came(context: SyncContext, outcome: SyncOutcome) -> str:
    """Say why a sync that found all at home is not the last one after all."""
    run = runs.find(context.database, context.run_id)
    if run.submission != outcome.submission or not run.ended:
        return f"{context.run_id} was submitted again in the meantime"
    return f"{context.host} has found another checkpoint of {context.run_id} in the meantime"


def record_failure(database: Database, run_id: str, error: ArmadaError, now: float) -> None:
    """Record why a sync failed, and when the next one is due."""
    if not runs.is_known(database, run_id):
        return
    failures = run_sync.find(database, run_id).failures + 1
    wait_s = schedule.DISK_PAUSE_S if cause_of(error) == "disk_home" else schedule.backoff_s(failures, jitter_roll())
    run_sync.failed(database, run_id, now=now, reason=str(error), next_due_at=now + wait_s)
