"""One sync of one run: look, bring what is wanted, note that it came, let go of what need not be kept.

Killed at any instruction, the next sync goes on where this one broke: staging is named by the manifest's digest, a file
counts only once its hash was right, the store learns of a checkpoint only after it lies under its final name, and the host
is told only after the store. Deleting follows the same order backwards, and on the host only what was looked at just now.
"""

from __future__ import annotations

import dataclasses
import functools
import time
from typing import TYPE_CHECKING, Any

from armada.config.sync import SyncSettings, settings_of
from armada.errors import ArmadaError, HostUnreachable
from armada.foundation.sanitize import sanitize_line
from armada.monitor.observe import UNKNOWN_WORDS, outbox_entries, where, wiped_by
from armada.store import checkpoints, run_sync, runs, transfers
from armada.sync.causes import as_error, cause_of
from armada.sync.checkpoints import apply_retention
from armada.sync.checkpoints.checkpoint_download import CheckpointDownloader
from armada.sync.checkpoints.manifest import manifests_of
from armada.sync.checkpoints.proof import prove
from armada.sync.checkpoints.staging import leave, only_one
from armada.sync.outputs.outputs import Hashes, Outputs, ask_ahead, bring_outputs, coming, stale
from armada.sync.runs.acknowledgements import Telling
from armada.sync.runs.outbox_listing import FRESH_S, expects, look_first, observe_and_look
from armada.sync.runs.report import Listener, Look, NullListener, SyncOutcome, Trouble
from armada.sync.schedule import due as schedule
from armada.sync.transfer.download import Fetcher
from armada.sync.transfer.streams import Streams
from armada.sync.transfer.transfer import ChosenTransfer
from armada.verdicts import settling
from armada.verdicts.presence import AWAY_WORDS, There
from armada.verdicts.proof import Proof

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from armada.paths import HomePaths
    from armada.rpc.session import HostSession
    from armada.store.checkpoints import Checkpoint
    from armada.store.database import Database

AGAIN_S = 5.0
"""A run that was just synced may join in again after so long."""

HASHING_S = 2.0
"""Who waits for a host to hash a checkpoint looks again after so long."""


def sync_run(
    database: Database,
    session: HostSession,
    home: HomePaths,
    run_id: str,
    *,
    listener: Listener | None = None,
    now: Callable[[], float] = time.time,
    insist: bool = False,
    only: str | None = None,
    looked: Look | None = None,
) -> SyncOutcome:
    """Bring home what a run has and its settings want; then apply retention, here and there.

    Args:
        database: The store.
        session: With the run's host.
        home: Home's folders.
        run_id: Which.
        listener: Told what is going on.
        now: The clock.
        insist: Try again what was given up, however recently.
        only: Digest of the one checkpoint to bring, wanted by the settings or not; nothing is deleted then.
        looked: What the host showed a moment ago, if it was asked already.

    Raises:
        HostUnreachable: The link stayed down; what arrived stays in staging. What else can fail is in the outcome.
    """
    began = now()
    sync = _Sync(database, session, home, run_id, listener or NullListener(), now, insist=insist)
    outcome = _try(sync, only, looked, most=None)
    return outcome if only is not None else _note(database, run_id, outcome, began, now)


def sync_whole(
    database: Database,
    session: HostSession,
    home: HomePaths,
    run_id: str,
    *,
    listener: Listener,
    hashing: Callable[[int], None],
    pause: Callable[[float], None] = time.sleep,
) -> SyncOutcome:
    """Sync for somebody who waits for all there is, what the host has yet to hash included.

    Args:
        database: The store.
        session: With the run's host.
        home: Home's folders.
        run_id: Which.
        listener: Told what is going on.
        hashing: Told how many checkpoints are waited for, whose supervisor died before it hashed them.
        pause: Waits between two looks.

    Raises:
        HostUnreachable: As in `sync_run`.
    """
    outcome = sync_run(database, session, home, run_id, listener=listener, insist=True)
    while outcome.finishing:
        hashing(outcome.finishing)
        pause(HASHING_S)
        outcome = outcome.then(sync_run(database, session, home, run_id, listener=listener, insist=True))
    return outcome


def _try(sync: _Sync, only: str | None, looked: Look | None, *, most: int | None) -> SyncOutcome:
    """Sync, noting what ended it early."""
    try:
        with only_one(sync.home.checkpoints(sync.run_id)) as waited:
            if not runs.is_known(sync.database, sync.run_id):
                leave(sync.home.checkpoints(sync.run_id))
            runs.require(sync.database, sync.run_id)
            return sync.run(only, None if waited else looked, most)
    except OSError as error:
        problem = error if isinstance(error, ArmadaError) else as_error(error, host=sync.session.host.name)
        _note_failure(sync.database, sync.run_id, problem, sync.now())
        raise problem from error
    except ArmadaError as error:
        _note_failure(sync.database, sync.run_id, error, sync.now())
        raise


def _note(database: Database, run_id: str, outcome: SyncOutcome, began: float, now: Callable[[], float]) -> SyncOutcome:
    """Write down how a sync ended that ran to its end; the outcome as it is after that."""
    hard = [trouble for trouble in outcome.troubles if trouble.cause != "rejected"]
    if outcome.saw_end and not outcome.final:
        run_sync.reopen(database, run_id)  # it may have been called done before something of it was lost here
    if hard:
        _note_failure(database, run_id, hard[0].error, now())
    elif outcome.saw_end and not outcome.final:
        # Nothing went wrong this time because what is wrong was not due to be tried; it must not look as if all were home.
        _note_failure(database, run_id, ArmadaError(outcome.missing or ""), now())
    else:
        due = began + settings_of(runs.spec(database, run_id)).every_s
        ended = outcome.submission if outcome.final else None
        if not run_sync.succeeded(database, run_id, began=began, next_due_at=due, final_of=ended) and outcome.final:
            return dataclasses.replace(outcome, missing=f"{run_id} was submitted again in the meantime")
    return outcome


def sync_host(
    database: Database,
    session: HostSession,
    home: HomePaths,
    run_ids: Sequence[str],
    *,
    listener: Listener | None = None,
    now: Callable[[], float] = time.time,
    news: Callable[[], Sequence[str]] | None = None,
) -> list[SyncOutcome]:
    """Sync several runs of one host; those with nothing new cost one round trip together.

    They take turns, a checkpoint at a time, newest first: a run with much to bring does not hold up the others.

    Args:
        database: The store.
        session: With the host.
        home: Home's folders.
        run_ids: Which.
        listener: Told what is going on.
        now: The clock.
        news: Asked after every turn which runs of the host are due by then; they join in.

    Raises:
        HostUnreachable: As in sync_run; the runs not reached are noted as failed too.
    """
    chosen = [runs.find(database, run_id) for run_id in run_ids]
    with Streams(session) as pool:
        try:
            looks = look_first(database, session, home, pool, chosen, now())
            looked_at = now()
        except ArmadaError as error:
            for run in chosen:
                _note_failure(database, run.run_id, error, now())
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
            sync = _Sync(database, session, home, run_id, listener or NullListener(), now, insist=False, pool=pool)
            most = 1 if waiting or news is not None else None
            try:
                outcome = _try(sync, None, looks[run_id] if is_fresh else None, most=most)
            except HostUnreachable as error:
                for other in waiting:
                    _note_failure(database, other, error, now())
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
                    outcomes[run_id] = _note(database, run_id, outcomes[run_id], began.pop(run_id), now)
                    done_at[run_id] = now()
            for other in news() if news is not None else ():
                if other not in waiting and now() - done_at.get(other, 0.0) >= AGAIN_S:
                    waiting.append(other)
    return list(outcomes.values())


def _is_quarantined(tried: dict[str, transfers.Transfer], checkpoint: Checkpoint) -> bool:
    """Rejected manifests are given up; they do not hold back the end of a run's syncs."""
    before = tried.get(checkpoint.digest)
    return before is not None and before.state == "failed" and before.next_try_at is None


def _note_failure(database: Database, run_id: str, error: ArmadaError, now: float) -> None:
    if not runs.is_known(database, run_id):
        return
    failures = run_sync.find(database, run_id).failures + 1
    wait_s = schedule.DISK_PAUSE_S if cause_of(error) == "disk_home" else schedule.backoff_s(failures, schedule.roll())
    run_sync.failed(database, run_id, now=now, reason=str(error), next_due_at=now + wait_s)


@dataclasses.dataclass(slots=True)
class _Came:
    """What one sync wanted, and what it brought."""

    wanted: Sequence[Checkpoint]
    already: int
    left: bool = False
    published: list[tuple[int, Path]] = dataclasses.field(default_factory=list)
    outputs: Outputs = dataclasses.field(default_factory=Outputs)


class _Sync:
    """The parts of one sync and what they share."""

    def __init__(
        self,
        database: Database,
        session: HostSession,
        home: HomePaths,
        run_id: str,
        listener: Listener,
        now: Callable[[], float],
        *,
        insist: bool,
        pool: Streams | None = None,
    ) -> None:
        self.database = database
        self.session = session
        self.home = home
        self.run_id = run_id
        self._listener = listener
        self.now = now
        self._insist = insist
        self._pool = pool
        self._troubles: list[Trouble] = []
        self._telling = Telling(database, session, home, run_id, self._troubles)

    def run(self, only: str | None, looked: Look | None, most: int | None) -> SyncOutcome:
        """Sync; of the checkpoints, bring `only` one, or so many at `most`."""
        database, run_id = self.database, self.run_id
        settings = settings_of(runs.spec(database, run_id))
        limit = settings.bytes_per_s
        with Fetcher(self.session, pool=self._pool, streams=settings.streams, bytes_per_s=limit) as fetcher:
            if looked is None:
                if self._insist or only or expects(database, run_id):
                    fetcher.prepare()
                run = runs.find(database, run_id)
                unseen = [] if run.is_settled(self.now()) else [run]
                asker = self._telling.own
                looked = observe_and_look(database, self.session, [run], unseen, self.now(), asker=asker)[run_id]
            chosen = self._take(looked, settings, only)
            came = _Came(chosen if most is None else chosen[:most], already=self._count_home())
            came.left = len(came.wanted) < len(chosen)
            asked = None if only else ask_ahead(self.session, self.home, run_id, looked.entry, settings.log_limit_bytes)
            came.published = self._bring(came.wanted, settings, fetcher, manifests_of(looked.entry))
            self._telling.acknowledge()
            if not only:
                came.outputs = self._bring_outputs(looked.entry, fetcher, settings, asked)
            self._telling.hear_all()
        return self._conclude(looked, settings, came, is_partial=only is not None)

    def _count_home(self) -> int:
        known = checkpoints.of_run(self.database, self.run_id)
        return sum(1 for checkpoint in known if checkpoint.home_path is not None)

    def _take(self, looked: Look, settings: SyncSettings, only: str | None) -> list[Checkpoint]:
        """Record what the host showed; what to bring, the newest first."""
        database, run_id = self.database, self.run_id
        run = runs.find(database, run_id)
        entry = looked.entry
        self._telling.take(entry)
        unsettled = run.observed_at is not None and not run_sync.find(database, run_id).final_done
        there = where(run, entry)
        words = {There.AWAY: AWAY_WORDS, There.UNKNOWN: UNKNOWN_WORDS}.get(there)
        if unsettled and words is not None:
            raise ArmadaError(f"{run_id}: {words}", host=self.session.host.name)
        if isinstance(problem := entry.get("problem"), str):  # no outbox to be taken for an empty one
            raise ArmadaError(
                f"the files of {run_id} on its host cannot be listed: {sanitize_line(problem)}",
                host=self.session.host.name,
            )
        if there in (There.HERE, There.REMOVED):  # what cannot be seen is not gone
            checkpoints.record_outbox(database, run_id, outbox_entries(entry))
        if there is There.REMOVED and (wiped := wiped_by(run, entry)) and run.message != wiped:
            runs.set_state(database, run_id, run.state, reason=run.reason, message=wiped)
        apply_retention.tidy(database, self.home, run_id)
        return self._choose(checkpoints.of_run(database, run_id), settings, only)

    def _conclude(self, looked: Look, settings: SyncSettings, came: _Came, *, is_partial: bool) -> SyncOutcome:
        """Apply retention, here and there, and say how it all ended."""
        database, run_id = self.database, self.run_id
        deleted_home: list[Path] = []
        deleted_host: list[str] = []
        if looked.ended and not is_partial:
            self._settle_doubts()
        if not is_partial:
            deleted_home = apply_retention.retain_home(database, self.home, run_id, settings)
            deleted_host = self._telling.prune(apply_retention.surplus_on_host(database, run_id, settings))
        home_now = {c.digest for c in checkpoints.of_run(database, run_id) if c.home_path is not None}
        tried = transfers.of_run(database, run_id)
        pending = tuple(
            c.digest
            for c in checkpoints.of_run(database, run_id)
            if c.on_host and c.home_path is None and c.trouble != schedule.NOT_WANTED and not _is_quarantined(tried, c)
        )
        seen = settling.Seen(
            looked.ended,
            len(pending),
            len(came.outputs.unsettled),
            looked.finishing,
            sum(trouble.cause != "rejected" for trouble in self._troubles),
            partial=is_partial,
        )
        missing = settling.what_is_missing(run_id, seen)
        if missing is None:
            self._telling.settle(looked.submission)
        return SyncOutcome(
            run_id,
            tuple(place for _, place in sorted(came.published)),
            sum(c.size_bytes for c in came.wanted if c.digest in home_now),
            came.already,
            pending,
            len(home_now),
            tuple(deleted_home),
            tuple(deleted_host),
            came.outputs,
            tuple(self._troubles),
            left=came.left,
            saw_end=looked.ended,
            finishing=looked.finishing,
            missing=missing,
            submission=looked.submission,
        )

    def _settle_doubts(self) -> None:
        """Before all of a run can be called home: what has changed since it came home is fetched anew while its host has it."""
        from armada.sync.checkpoints.verify import look_over, repair

        doubted = [
            c for c in checkpoints.of_run(self.database, self.run_id) if prove(self.database, c) is Proof.DAMAGED
        ]
        if not doubted:
            return
        digests = {checkpoint.digest for checkpoint in doubted}
        for finding in look_over(self.database, self.run_id, read_data=True, told=lambda _: None):
            if finding.good or finding.checkpoint.digest not in digests:
                continue
            try:
                name = f"checkpoint-{finding.checkpoint.step}"
                listener = functools.partial(self._listener.transfer, name)
                repair(self.database, self.session, self.home, finding, listener, locked=True)
            except HostUnreachable:
                raise
            except (ArmadaError, OSError) as error:
                self._note_trouble(finding.checkpoint, error)

    def _choose(self, known: Sequence[Checkpoint], settings: SyncSettings, only: str | None) -> list[Checkpoint]:
        """What to bring now, the newest first: if the box dies in the middle, that is the one to have."""
        if only is not None:
            return [c for c in known if c.digest == only and c.on_host and c.home_path is None]
        kept = apply_retention.wanted(self.database, self.run_id, known, settings)
        tried = transfers.of_run(self.database, self.run_id)
        wanted = []
        for checkpoint in reversed(known):
            if not checkpoint.on_host or checkpoint.home_path is not None:
                continue
            if checkpoint not in kept:
                checkpoints.mark_trouble(self.database, self.run_id, checkpoint.digest, schedule.NOT_WANTED)
                self._telling.decline(checkpoint)
            elif self._insist or self._may_try(tried.get(checkpoint.digest)):
                wanted.append(checkpoint)
        return wanted

    def _may_try(self, before: transfers.Transfer | None) -> bool:
        if before is None or before.state in ("waiting", "running", "done"):
            return True
        now = self.now()
        latest = now + schedule.LONGEST_TRY_S * 1.5
        return before.next_try_at is not None and not now < before.next_try_at <= latest

    def _bring(
        self,
        wanted: Sequence[Checkpoint],
        settings: SyncSettings,
        fetcher: Fetcher,
        manifests: Mapping[str, str],
    ) -> list[tuple[int, Path]]:
        transfer = ChosenTransfer(self.database, self.session, settings, fetcher)
        carrier = CheckpointDownloader(self.database, self.session, self.home, transfer, manifests)
        published = []
        for checkpoint in wanted:
            name = f"checkpoint-{checkpoint.step}"
            try:
                left_out = apply_retention.left_out_of(checkpoint, self.database, settings)
                place = carrier.bring(checkpoint, left_out, functools.partial(self._listener.transfer, name))
            except HostUnreachable as error:
                transfers.give_up(
                    self.database, self.run_id, checkpoint.digest, "waiting", str(error), next_try_at=None
                )
                raise
            except (ArmadaError, OSError) as error:
                self._note_trouble(checkpoint, error)
            else:
                published.append((checkpoint.step, place))
                self._listener.done(f"{place} (every byte verified)")
                self._telling.acknowledge(checkpoint.digest)
        return published

    def _note_trouble(self, checkpoint: Checkpoint, error: ArmadaError | OSError) -> None:
        problem = error if isinstance(error, ArmadaError) else as_error(error, host=self.session.host.name)
        cause = cause_of(problem)
        now = self.now()
        before = transfers.of_run(self.database, self.run_id).get(checkpoint.digest)
        tries = before.tries if before else 0
        again = {"rejected": None, "disk_home": now + schedule.DISK_PAUSE_S}.get(
            cause, schedule.next_try_at(now, tries)
        )
        transfers.give_up(
            self.database,
            self.run_id,
            checkpoint.digest,
            "paused" if cause == "disk_home" else "failed",
            f"{cause}: {problem.message}",
            next_try_at=again,
        )
        checkpoints.mark_trouble(self.database, self.run_id, checkpoint.digest, problem.message)
        self._troubles.append(Trouble(cause, problem, checkpoint.digest, checkpoint.step))

    def _bring_outputs(
        self, entry: dict[str, Any], fetcher: Fetcher, settings: SyncSettings, asked: Hashes | None
    ) -> Outputs:
        listed, skipped = coming(self.home, self.run_id, entry, settings.log_limit_bytes)
        if not stale(self.home, self.run_id, listed):
            return Outputs(skipped=tuple(skipped))
        try:
            brought = bring_outputs(
                self.session,
                self.home,
                self.run_id,
                listed,
                fetcher,
                lambda seen: self._listener.transfer("outputs", seen),
                asked,
            )
        except HostUnreachable:
            raise
        except (ArmadaError, OSError) as error:
            problem = error if isinstance(error, ArmadaError) else as_error(error, host=self.session.host.name)
            self._troubles.append(Trouble(cause_of(problem), problem))
            return Outputs(skipped=tuple(skipped))
        return Outputs(brought.fetched, brought.size_bytes, brought.unsettled, tuple(skipped))
