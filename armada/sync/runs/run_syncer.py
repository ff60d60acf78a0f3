"""Sync one run: list, fetch what is wanted, acknowledge it, delete what need not be kept.

If a sync is killed at any instruction, the next one continues where it stopped. Staging is named by the manifest's
digest. A file counts only once its hash was correct. The store learns of a checkpoint only after it has its final name,
and the host only after the store. Deleting follows the reverse order, and on the host it affects only what was listed
just now.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING

from armada.config.sync import SyncSettings, settings_of
from armada.errors import ArmadaError, HostUnreachable
from armada.foundation.sanitize import sanitize_line
from armada.monitor.look import where, wiped_by
from armada.store import checkpoints, run_sync, runs, transfers
from armada.sync.causes import as_error, cause_of, is_broken
from armada.sync.checkpoints import apply_retention, optimizers
from armada.sync.checkpoints.download import CheckpointDownloader
from armada.sync.checkpoints.folders import find_changed, not_seen, require_same
from armada.sync.checkpoints.proof import Prover
from armada.sync.checkpoints.recognition import recognise
from armada.sync.checkpoints.repair import complete, repair
from armada.sync.checkpoints.verify import look_over
from armada.sync.errors import FolderAway
from armada.sync.outputs.download import Hashes, Outputs, ask_ahead, download_outputs
from armada.sync.outputs.listing import coming, count_left, stale
from armada.sync.runs.acknowledgements import Acknowledger
from armada.sync.runs.outbox_listing import OutboxListing, expects, observe_and_look
from armada.sync.runs.report import SyncOutcome, Trouble
from armada.sync.schedule import due as schedule
from armada.sync.transfer.chosen_transfer import ChosenTransfer
from armada.sync.transfer.stream_transfer import Fetcher
from armada.verdicts import settling
from armada.verdicts.presence import AWAY_WORDS, UNKNOWN_WORDS, There
from armada.verdicts.proof import Proof

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from armada.foundation.progress import Progress
    from armada.protocol.sync import RunListing
    from armada.store.checkpoints import Checkpoint
    from armada.sync.context import SyncContext
    from armada.sync.transfer.streams import Streams


@dataclasses.dataclass(slots=True)
class _Came:
    """What one sync wanted, and what it fetched."""

    wanted: Sequence[Checkpoint]
    already: int
    left: bool = False
    published: list[tuple[int, Path]] = dataclasses.field(default_factory=list)
    outputs: Outputs = dataclasses.field(default_factory=Outputs)


_MOST_INSTEAD = 3

SYNC = "sync"
HOME = "home"
"""The parts of a sync as shown: transfers, and what is verified and in place."""


class RunSyncer:
    """The steps of one sync and what they share.

    Args:
        context: The run and its host.
        progress: Receives the progress.
        now: The clock.
        insist: Retry what was given up, however recently.
        pool: Streams with the host that are shared with others; by default, own ones.
    """

    def __init__(
        self,
        context: SyncContext,
        progress: Progress,
        now: Callable[[], float],
        *,
        insist: bool,
        pool: Streams | None = None,
    ) -> None:
        self.context = context
        self._progress = progress
        self.now = now
        self._insist = insist
        self._pool = pool
        self._troubles: list[Trouble] = []
        self._acknowledger = Acknowledger(context, self._troubles)

    def run(self, only: str | None, looked: OutboxListing | None, most: int | None) -> SyncOutcome:
        """Sync the run. Fetch only the checkpoint `only`, or at most `most` checkpoints."""
        database, run_id = self.context.database, self.context.run_id
        settings = settings_of(runs.spec(database, run_id))
        limit = settings.bytes_per_s
        with Fetcher(self.context.session, pool=self._pool, streams=settings.streams, bytes_per_s=limit) as fetcher:
            if looked is None or self._is_overtaken(looked):
                if self._insist or only or expects(database, run_id):
                    fetcher.prepare()
                run = runs.find(database, run_id)
                unseen = [run] if run.is_watched(self.now()) else []
                asker = self._acknowledger.own
                looked = observe_and_look(database, self.context.session, [run], unseen, self.now(), asker=asker)[
                    run_id
                ]
            chosen = self._take(looked, settings, only)
            came = _Came(chosen if most is None else chosen[:most], already=self._count_home())
            came.left = len(came.wanted) < len(chosen)
            asked = None if only else ask_ahead(self.context, looked.entry, settings.log_limit_bytes)
            came.published = self._bring(came.wanted, settings, fetcher, looked.entry.manifests)
            if not only:
                self._bring_instead(came, settings, fetcher, looked.entry.manifests, most)
                self._decline(settings)
            self._acknowledger.acknowledge()
            if not only:
                came.outputs = self._bring_outputs(looked.entry, fetcher, settings, asked)
            self._acknowledger.await_answers()
        return self._conclude(looked, settings, came, is_partial=only is not None)

    def _is_overtaken(self, looked: OutboxListing) -> bool:
        """Whether a listing shows what the store knows to be off the host: another sync deleted it there in the meantime."""
        known = checkpoints.of_run(self.context.database, self.context.run_id)
        off = {checkpoint.digest for checkpoint in known if not checkpoint.on_host}
        return any(entry.digest in off for entry in looked.entry.outbox)

    def _count_home(self) -> int:
        known = checkpoints.of_run(self.context.database, self.context.run_id)
        return sum(1 for checkpoint in known if checkpoint.home_path is not None)

    def _take(self, looked: OutboxListing, settings: SyncSettings, only: str | None) -> list[Checkpoint]:
        """Record what the host listed; return what to fetch, newest first."""
        database, run_id = self.context.database, self.context.run_id
        run = runs.find(database, run_id)
        entry = looked.entry
        self._acknowledger.note_known(entry)
        unsettled = run.observed_at is not None and not run_sync.find(database, run_id).final_done
        there = where(run, looked.folder)
        words = {There.AWAY: AWAY_WORDS, There.UNKNOWN: UNKNOWN_WORDS}.get(there)
        if unsettled and words is not None:
            raise ArmadaError(f"{run_id}: {words}", host=self.context.host)
        if (problem := entry.problem) is not None:  # without a readable outbox; it must not count as an empty one
            raise ArmadaError(
                f"the files of {run_id} on its host cannot be listed: {sanitize_line(problem)}", host=self.context.host
            )
        if there in (There.HERE, There.REMOVED):  # otherwise the folder is invisible, not gone
            checkpoints.record_outbox(database, run_id, entry.outbox, unreadable=entry.unreadable)
            unread = recognise(database, self.context.home, run_id, self._tell_reading)
            self._troubles += [Trouble(cause_of(error), error, each.digest, each.step) for each, error in unread]
        if there is There.REMOVED and (wiped := wiped_by(run, looked.folder)) and run.message != wiped:
            runs.set_state(database, run_id, run.state, reason=run.reason, message=wiped, judged=run)
        apply_retention.tidy(database, self.context.home, run_id)
        return self._choose(checkpoints.of_run(database, run_id), settings, only)

    def _conclude(self, looked: OutboxListing, settings: SyncSettings, came: _Came, *, is_partial: bool) -> SyncOutcome:
        """Apply retention at home and on the host, and return the outcome."""
        database, run_id = self.context.database, self.context.run_id
        deleted_home: list[Path] = []
        deleted_host: list[str] = []
        if looked.ended and not is_partial:
            self._settle_doubts()
        if not is_partial:
            self._complete(settings)
            progress = self._progress
            deleted_home = apply_retention.retain_home(database, self.context.home, run_id, settings, progress)
            deleted_host = self._acknowledger.prune(
                apply_retention.surplus_on_host(database, run_id, settings, progress)
            )
        require_same(database, run_id)  # all that follows says what is home
        known = checkpoints.of_run(database, run_id)
        home_now = {c.digest for c in known if c.home_path is not None}
        unwanted = {c.digest for c in known if c.trouble == schedule.NOT_WANTED}
        tried = transfers.of_run(database, run_id)
        pending = tuple(
            c.digest
            for c in known
            if c.on_host and c.home_path is None and c.trouble != schedule.NOT_WANTED and not _is_quarantined(tried, c)
        )
        seen = settling.Seen(
            looked.ended,
            len(pending),
            len(came.outputs.unsettled),
            looked.finishing,
            sum(trouble.cause != "rejected" for trouble in self._troubles),
            partial=is_partial,
            unreadable=len(set(looked.entry.unreadable) - home_now - unwanted),
            untaken=looked.entry.untaken or 0,
            lags=looked.lags,
        )
        missing = settling.what_is_missing(run_id, seen)
        if missing is None:
            self._acknowledger.settle(looked.submission)
        return SyncOutcome(
            run_id,
            tuple(place for _, place in sorted(came.published)),
            sum(c.size_bytes for c in came.wanted if c.digest in home_now),
            came.already,
            pending,
            tuple(deleted_home),
            tuple(deleted_host),
            came.outputs,
            tuple(self._troubles),
            left=came.left,
            saw_end=looked.ended,
            lags=looked.lags,
            finishing=looked.finishing,
            missing=missing,
            submission=looked.submission,
            on_host=frozenset(c.digest for c in known if c.on_host),
            left_there=self._count_left(looked, settings),
        )

    def _count_left(self, looked: OutboxListing, settings: SyncSettings) -> int | None:
        """Count what a host has that no sync brings; None where that was not seen."""
        there = where(runs.find(self.context.database, self.context.run_id), looked.folder)
        if there is There.REMOVED:
            return 0
        if there is not There.HERE:
            return None
        limit = settings.log_limit_bytes
        return count_left(self.context.home, self.context.run_id, looked.entry, limit, ended=looked.ended)

    def _settle_doubts(self) -> None:
        """Fetch again what has changed at home since it was fetched, while the host has it. Called before the final sync is declared.

        What is not seen where it was put is a trouble: nobody knows that it is home.
        """
        prover = Prover(self.context.database, self._progress)
        known = checkpoints.of_run(self.context.database, self.context.run_id)
        proofs = [(c, prover.prove(c)) for c in known if c.home_path is not None]
        require_same(self.context.database, self.context.run_id)
        unseen = [(not_seen(c), c) for c, proof in proofs if proof is Proof.MISSING]
        self._troubles += [Trouble(cause_of(error), error, c.digest, c.step) for error, c in unseen]
        doubted = [c for c, proof in proofs if proof is Proof.DAMAGED]
        if not doubted:
            return
        digests = {checkpoint.digest for checkpoint in doubted}
        for finding in look_over(self.context.database, self.context.run_id, read_data=True, told=self._tell_reading):
            if finding.good or finding.checkpoint.digest not in digests:
                continue
            try:
                name = f"checkpoint-{finding.checkpoint.step}"
                tell = functools.partial(self._progress.transfer, SYNC, name)
                repair(self.context, finding, tell, locked=True)
            except (HostUnreachable, FolderAway):
                raise
            except (ArmadaError, OSError) as error:
                require_same(self.context.database, self.context.run_id)
                self._note_trouble(finding.checkpoint, error)

    def _tell_reading(self, name: str) -> None:
        self._progress.now("reading", f"{self.context.run_id}: {name}")

    def _complete(self, settings: SyncSettings) -> None:
        """Fetch the optimizer state of what is the newest here after all: a newer one was expected, and did not come."""
        for checkpoint in optimizers.lacking(checkpoints.of_run(self.context.database, self.context.run_id), settings):
            if not checkpoint.on_host:
                continue
            tell = functools.partial(self._progress.transfer, SYNC, f"checkpoint-{checkpoint.step}")
            try:
                complete(self.context, checkpoint, tell)
            except (HostUnreachable, FolderAway):
                raise
            except (ArmadaError, OSError) as error:  # what is here of it is as good as before
                require_same(self.context.database, self.context.run_id)
                problem = as_error(error, host=self.context.host)
                self._troubles.append(Trouble(cause_of(problem), problem, checkpoint.digest, checkpoint.step))

    def _choose(self, known: Sequence[Checkpoint], settings: SyncSettings, only: str | None) -> list[Checkpoint]:
        """Return what to fetch now, newest first: if the host dies during the sync, the newest is the one to have."""
        if only is not None:
            return [c for c in known if c.digest == only and c.on_host and c.home_path is None]
        kept = apply_retention.wanted(self.context.database, self.context.run_id, known, settings)
        tried = transfers.of_run(self.context.database, self.context.run_id)
        wanted = []
        for checkpoint in reversed(known):
            if not checkpoint.on_host or checkpoint.home_path is not None:
                continue
            if checkpoint not in kept:
                checkpoints.mark_trouble(
                    self.context.database, self.context.run_id, checkpoint.digest, schedule.NOT_WANTED
                )
                continue
            if checkpoint.trouble == schedule.NOT_WANTED:  # it was unwanted beside others, which are no longer here
                checkpoints.mark_trouble(self.context.database, self.context.run_id, checkpoint.digest, None)
            if self._insist or self._may_try(tried.get(checkpoint.digest)):
                wanted.append(checkpoint)
        return wanted

    def _bring_instead(
        self, came: _Came, settings: SyncSettings, fetcher: Fetcher, manifests: Mapping[str, str], most: int | None
    ) -> None:
        """Fetch what the settings want in the place of what turned out to be broken on the host; what else is broken, the next time."""
        before = set[str]()
        for _ in range(_MOST_INSTEAD):
            tried = {checkpoint.digest for checkpoint in came.wanted}
            transferred = transfers.of_run(self.context.database, self.context.run_id)
            if not any(is_broken(transferred[digest]) for digest in tried - before if digest in transferred):
                return
            known = checkpoints.of_run(self.context.database, self.context.run_id)
            instead = [c for c in self._choose(known, settings, None) if c.digest not in tried]
            now = instead if most is None else instead[: max(0, most - len(tried))]
            came.left = came.left or len(now) < len(instead)
            came.wanted = [*came.wanted, *now]
            came.published += self._bring(now, settings, fetcher, manifests)
            before = tried

    def _decline(self, settings: SyncSettings) -> None:
        """Say that home will not fetch what is not wanted beside what came: not before, as what is to come may be broken."""
        if not self._acknowledger.may_decline:
            return
        database, run_id = self.context.database, self.context.run_id
        known = checkpoints.of_run(database, run_id)
        for checkpoint in apply_retention.unneeded(database, run_id, known, settings):
            if checkpoint.trouble == schedule.NOT_WANTED:
                self._acknowledger.decline(checkpoint)

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
        transfer = ChosenTransfer(self.context.database, self.context.session, settings, fetcher)
        downloader = CheckpointDownloader(self.context, transfer, manifests)
        published = []
        for checkpoint in wanted:
            name = f"checkpoint-{checkpoint.step}"
            try:
                left_out = optimizers.left_out_of(checkpoint, self.context.database, settings)
                place = downloader.bring(checkpoint, left_out, functools.partial(self._progress.transfer, SYNC, name))
            except (HostUnreachable, FolderAway) as error:
                self._let_wait(checkpoint, error)
                raise
            except (ArmadaError, OSError) as error:
                if (away := find_changed(self.context.database, self.context.run_id)) is not None:
                    self._let_wait(checkpoint, away)
                    raise away from error
                self._note_trouble(checkpoint, error)
            else:
                published.append((checkpoint.step, place))
                self._progress.stage(HOME, f"{place} (every byte verified)")
                self._acknowledger.acknowledge(checkpoint.digest)
        return published

    def _let_wait(self, checkpoint: Checkpoint, error: ArmadaError) -> None:
        database, run_id = self.context.database, self.context.run_id
        transfers.give_up(database, run_id, checkpoint.digest, "waiting", str(error), next_try_at=None)

    def _note_trouble(self, checkpoint: Checkpoint, error: ArmadaError | OSError) -> None:
        problem = as_error(error, host=self.context.host)
        cause = cause_of(problem)
        now = self.now()
        before = transfers.of_run(self.context.database, self.context.run_id).get(checkpoint.digest)
        tries = before.tries if before else 0
        again = {"rejected": None, "disk_home": now + schedule.DISK_PAUSE_S}.get(
            cause, schedule.next_try_at(now, tries)
        )
        transfers.give_up(
            self.context.database,
            self.context.run_id,
            checkpoint.digest,
            "paused" if cause == "disk_home" else "failed",
            f"{cause}: {problem.message}",
            next_try_at=again,
        )
        checkpoints.mark_trouble(self.context.database, self.context.run_id, checkpoint.digest, problem.message)
        self._troubles.append(Trouble(cause, problem, checkpoint.digest, checkpoint.step))

    def _bring_outputs(
        self, entry: RunListing, fetcher: Fetcher, settings: SyncSettings, asked: Hashes | None
    ) -> Outputs:
        listed, skipped = coming(self.context.home, self.context.run_id, entry, settings.log_limit_bytes)
        if not stale(self.context.home, self.context.run_id, listed):
            return Outputs(skipped=tuple(skipped))
        try:
            tell = functools.partial(self._progress.transfer, SYNC, "outputs")
            same = functools.partial(require_same, self.context.database, self.context.run_id)
            brought = download_outputs(self.context, listed, fetcher, tell, asked, require_same=same)
        except (HostUnreachable, FolderAway):
            raise
        except (ArmadaError, OSError) as error:
            require_same(self.context.database, self.context.run_id)
            problem = as_error(error, host=self.context.host)
            self._troubles.append(Trouble(cause_of(problem), problem))
            return Outputs(skipped=tuple(skipped))
        return dataclasses.replace(brought, skipped=tuple(skipped))


def _is_quarantined(tried: dict[str, transfers.Transfer], checkpoint: Checkpoint) -> bool:
    """Whether a checkpoint's manifest was rejected. Such checkpoints are given up and do not delay the end of a run's syncs."""
    before = tried.get(checkpoint.digest)
    return before is not None and before.state == "failed" and before.next_try_at is None
