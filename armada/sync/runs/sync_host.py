"""Sync several runs of one host: they take turns, so that a run with much to bring does not hold up the others."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from armada.errors import ArmadaError, HostUnreachable
from armada.store import runs
from armada.sync.causes import cause_of
from armada.sync.runs.outbox_listing import FRESH_S, look_first
from armada.sync.runs.report import NullListener, SyncOutcome, Trouble
from armada.sync.runs.run_syncer import RunSyncer
from armada.sync.runs.sync_run import record_failure, record_outcome, try_sync
from armada.sync.transfer.streams import Streams

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from armada.sync.context import HostContext
    from armada.sync.runs.report import Listener

AGAIN_S = 5.0
"""A run that was just synced may join in again after so long."""


def sync_host(
    context: HostContext,
    run_ids: Sequence[str],
    *,
    listener: Listener | None = None,
    now: Callable[[], float] = time.time,
    news: Callable[[], Sequence[str]] | None = None,
) -> list[SyncOutcome]:
    """Sync several runs of one host; those with nothing new cost one round trip together.

    They take turns, a checkpoint at a time, newest first: a run with much to bring does not hold up the others.

    Args:
        context: The host.
        run_ids: Which.
        listener: Told what is going on.
        now: The clock.
        news: Asked after every turn which runs of the host are due by then; they join in.

    Raises:
        HostUnreachable: As in sync_run; the runs not reached are noted as failed too.
    """
    database = context.database
    chosen = [runs.find(database, run_id) for run_id in run_ids]
    with Streams(context.session) as pool:
        try:
            looks = look_first(context, pool, chosen, now())
            looked_at = now()
        except ArmadaError as error:
            for run in chosen:
                record_failure(database, run.run_id, error, now())
            raise
        outcomes: dict[str, SyncOutcome] = {}
        began: dict[str, float] = {}
        done_at: dict[str, float] = {}
        waiting = [run.run_id for run in chosen]
        while waiting:
            run_id = waiting.pop(0)
            began.setdefault(run_id, now())
            # Bringing the runs before this one may have taken an hour.
            is_fresh = run_id in looks and run_id not in outcomes and 0 <= now() - looked_at < FRESH_S
            syncer = RunSyncer(context.of_run(run_id), listener or NullListener(), now, insist=False, pool=pool)
            most = 1 if waiting or news is not None else None
            try:
                outcome = try_sync(syncer, None, looks[run_id] if is_fresh else None, most=most)
            except HostUnreachable as error:
                for other in waiting:
                    record_failure(database, other, error, now())
                raise
            except ArmadaError as error:
                outcome = SyncOutcome(run_id, troubles=(Trouble(cause_of(error), error),))
                outcomes[run_id] = outcomes[run_id].then(outcome) if run_id in outcomes else outcome
                done_at[run_id] = now()
            else:
                outcomes[run_id] = outcomes[run_id].then(outcome) if run_id in outcomes else outcome
                if outcome.left:
                    waiting.append(run_id)
                else:
                    outcomes[run_id] = record_outcome(syncer.context, outcomes[run_id], began.pop(run_id), now)
                    done_at[run_id] = now()
            for other in news() if news is not None else ():
                if other not in waiting and now() - done_at.get(other, 0.0) >= AGAIN_S:
                    waiting.append(other)
    return list(outcomes.values())
