"""Sync several runs of one host. They take turns, so that a run with much to fetch does not delay the others."""

from __future__ import annotations

import functools
import time
from typing import TYPE_CHECKING

from armada.errors import ArmadaError, HostUnreachable
from armada.foundation.progress import NullProgress
from armada.store import run_sync, runs
from armada.sync.causes import cause_of
from armada.sync.errors import RunBusy
from armada.sync.runs.outbox_listing import FRESH_S, look_first
from armada.sync.runs.report import SyncOutcome, Trouble
from armada.sync.runs.run_syncer import RunSyncer
from armada.sync.runs.sync_run import record_failure, record_outcome, say_waiting, try_sync
from armada.sync.transfer.streams import Streams

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from armada.foundation.progress import Progress
    from armada.sync.context import HostContext
    from armada.sync.runs.outbox_listing import OutboxListing

AGAIN_S = 5.0
"""Seconds after which a run that was just synced may be synced again within the same call."""

BUSY = "another armada command works on its checkpoints, such as a pull"


def sync_host(
    context: HostContext,
    run_ids: Sequence[str],
    *,
    progress: Progress | None = None,
    now: Callable[[], float] = time.time,
    news: Callable[[], Sequence[str]] | None = None,
) -> list[SyncOutcome]:
    """Sync several runs of one host; those without news cost one round trip together.

    They take turns, one checkpoint at a time, newest first, so that a run with much to fetch does not delay the others.
    A run whose checkpoints another command works on comes last. Then that is waited for, but not by the daemon, whose
    other runs may become due: it puts the run off.

    Args:
        context: The host.
        run_ids: The runs.
        progress: Receives the progress.
        now: The clock.
        news: Called after every turn; returns the runs of the host that are due by then, which join in. The daemon's.

    Raises:
        HostUnreachable: As in sync_run; runs that were not reached are recorded as failed too.
    """
    chosen = [runs.find(context.database, run_id) for run_id in run_ids]
    with Streams(context.session) as pool:
        try:
            looks = look_first(context, pool, chosen, now())
        except ArmadaError as error:
            for run in chosen:
                record_failure(context.database, run.run_id, error, now())
            raise
        turns = _Turns(context, progress or NullProgress(), now, pool, looks, waits=news is None)
        turns.take_all([run.run_id for run in chosen], news)
    return list(turns.outcomes.values())


class _Turns:
    """The runs of one host that wait for their turn, and the outcome of each.

    Args:
        context: The host.
        progress: Receives the progress.
        now: The clock.
        pool: Streams with the host, shared by all of them.
        looks: What the host listed a moment ago, by run.
        waits: Wait for other commands that work on the runs; otherwise put those runs off.
    """

    def __init__(
        self,
        context: HostContext,
        progress: Progress,
        now: Callable[[], float],
        pool: Streams,
        looks: Mapping[str, OutboxListing],
        *,
        waits: bool,
    ) -> None:
        self.outcomes: dict[str, SyncOutcome] = {}
        self._context = context
        self._progress = progress
        self._now = now
        self._pool = pool
        self._looks = looks
        self._waits = waits
        self._looked_at = now()
        self._waiting: list[str] = []
        self._busy: set[str] = set()
        self._began: dict[str, float] = {}
        self._done_at: dict[str, float] = {}

    def take_all(self, run_ids: Sequence[str], news: Callable[[], Sequence[str]] | None) -> None:
        """Give every run its turns, including runs that become due meanwhile."""
        self._waiting = list(run_ids)
        while self._waiting:
            run_id = self._waiting.pop(0)
            self._take(run_id, most=1 if self._waiting or news is not None else None)
            for other in news() if news is not None else ():
                if other not in self._waiting and self._now() - self._done_at.get(other, 0.0) >= AGAIN_S:
                    self._waiting.append(other)

    def _take(self, run_id: str, *, most: int | None) -> None:
        """Sync one run, fetching at most `most` checkpoints; a run with more to fetch waits for another turn."""
        self._began.setdefault(run_id, self._now())
        syncer = RunSyncer(self._context.of_run(run_id), self._progress, self._now, insist=False, pool=self._pool)
        try:
            wait = functools.partial(self._await_others, run_id)
            outcome = try_sync(syncer, None, self._fresh_look(run_id), most=most, wait=wait)
        except RunBusy as error:
            self._put_off(run_id, error)
            return
        except HostUnreachable as error:
            for other in self._waiting:
                record_failure(self._context.database, other, error, self._now())
            raise
        except ArmadaError as error:
            self._add(SyncOutcome(run_id, troubles=(Trouble(cause_of(error), error),)))
            self._done_at[run_id] = self._now()
            return
        self._busy.discard(run_id)
        so_far = self._add(outcome)
        if outcome.left:
            self._waiting.append(run_id)
            return
        self.outcomes[run_id] = record_outcome(syncer.context, so_far, self._began.pop(run_id), self._now)
        self._done_at[run_id] = self._now()

    def _await_others(self, run_id: str) -> None:
        """Say that another command is waited for.

        Raises:
            RunBusy: It is not: others have their turn first, or this is the daemon.
        """
        if not self._waits or not self._busy.issuperset(self._waiting):
            raise RunBusy(BUSY, host=self._context.host)
        say_waiting(self._progress, run_id)

    def _put_off(self, run_id: str, error: RunBusy) -> None:
        """Have a run that another command works on come last, or in a later call, if none but such are left."""
        self._done_at[run_id] = self._now()
        if not self._busy.issuperset(self._waiting):
            self._busy.add(run_id)
            self._waiting.append(run_id)
            return
        if runs.is_known(self._context.database, run_id):
            run_sync.put_off(self._context.database, run_id, reason=error.message, now=self._now())
        self._began.pop(run_id, None)
        self._add(SyncOutcome(run_id, missing=error.message, busy=error.message))

    def _fresh_look(self, run_id: str) -> OutboxListing | None:
        """Return the host's listing of a run, unless it is outdated or the run had a turn since."""
        is_fresh = run_id not in self.outcomes and 0 <= self._now() - self._looked_at < FRESH_S
        return self._looks.get(run_id) if is_fresh else None

    def _add(self, outcome: SyncOutcome) -> SyncOutcome:
        """Combine an outcome with those of the run's earlier turns."""
        before = self.outcomes.get(outcome.run_id)
        self.outcomes[outcome.run_id] = outcome if before is None else before.then(outcome)
        return self.outcomes[outcome.run_id]
