"""What a home tells a host about a run's checkpoints: that it holds them, will not fetch them, or has all it wants.

The host keeps this apart for each home, and lets a checkpoint go only once every home that registered for its run has spoken.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from armada.errors import ArmadaError, HostUnreachable, NotFound
from armada.home import own
from armada.protocol.homes import Settle, asking
from armada.protocol.outbox import Acknowledge, Prune
from armada.store import checkpoints
from armada.sync.causes import cause_of
from armada.sync.checkpoints.proof import prove
from armada.sync.runs.report import Trouble
from armada.sync.schedule import due
from armada.verdicts.proof import Proof

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from armada.home import Home
    from armada.protocol.homes import EnrolledHome
    from armada.protocol.outbox import Acknowledged
    from armada.protocol.sync import RunListing
    from armada.store.checkpoints import Checkpoint
    from armada.sync.context import SyncContext


class Acknowledger:
    """Tells one run's host what this home has of the run.

    Args:
        context: The run and its host.
        troubles: Where what the host refuses is added.
    """

    def __init__(self, context: SyncContext, troubles: list[Trouble]) -> None:
        self.own: Home = own(context.home)
        self._database = context.database
        self._session = context.session
        self._run_id = context.run_id
        self._troubles = troubles
        self._before: EnrolledHome | None = None
        self._has_others = False
        self._unanswered: list[tuple[Checkpoint, bool, Callable[[], Acknowledged]]] = []

    def note_known(self, entry: RunListing) -> None:
        """Take over what the host knows already."""
        self._before = next((each for each in entry.homes if each.id == self.own.id), None)
        self._has_others = any(each.id != self.own.id for each in entry.homes)

    def acknowledge(self, digest: str | None = None) -> None:
        """Tell the host what is home, or that one checkpoint is; only from then on may it go there.

        `await_answers` takes its answers.
        """
        refused = {trouble.digest for trouble in self._troubles}
        for checkpoint in checkpoints.of_run(self._database, self._run_id):
            if checkpoint.digest in refused:
                continue  # it was asked for a moment ago
            if digest not in (None, checkpoint.digest) or not checkpoint.on_host or checkpoint.home_path is None:
                continue
            if checkpoint.acknowledged_at and (digest is not None or not self._must_say_again(checkpoint)):
                continue
            if not any(told.digest == checkpoint.digest and wanted for told, wanted, _ in self._unanswered):
                self._say(checkpoint, wanted=True)

    def _must_say_again(self, checkpoint: Checkpoint) -> bool:
        """Whether the host lacks a word that the store has: said by the home that this one is a copy of, without a name, or lost there."""
        unknown = self._before is not None and checkpoint.digest not in self._before.held
        return unknown and prove(self._database, checkpoint) is Proof.PROVEN

    def decline(self, checkpoint: Checkpoint) -> None:
        """Tell a host where another home may wait for the word that this one will not fetch a checkpoint."""
        if self._has_others and self._before is not None and checkpoint.digest not in self._before.unwanted:
            self._say(checkpoint, wanted=False)

    def prune(self, digests: Sequence[str]) -> list[str]:
        """Ask the host to delete checkpoints; those that it says are gone."""
        if not digests:
            return []
        question = Prune(run_id=self._run_id, digests=tuple(digests), home=asking(self.own))
        try:
            answer = self._session.call(question, timeout_s=300.0)
        except HostUnreachable:
            raise
        except ArmadaError as error:
            self._troubles.append(Trouble(cause_of(error), error))
            return []
        pruned = [digest for digest in digests if digest in answer.pruned]
        for digest in pruned:
            checkpoints.mark_off_host(self._database, self._run_id, digest)
        return pruned

    def settle(self, submission: int) -> None:
        """Tell the host that this home has all it wants of the run up to a submission; the next sync says so where this one cannot."""
        known = [c for c in checkpoints.of_run(self._database, self._run_id) if c.on_host]
        digests = [c.digest for c in known if c.home_path is not None or c.trouble == due.NOT_WANTED]
        before = self._before
        if before is None or (before.settled and set(digests) <= before.spoken_of):
            return
        with contextlib.suppress(ArmadaError):
            self._session.call(
                Settle(run_id=self._run_id, submission=submission, digests=tuple(digests), home=asking(self.own))
            )

    def await_answers(self) -> None:
        """Take the host's answers to what it was told. Until they are here nothing counts as acknowledged.

        Raises:
            HostUnreachable: The link stayed down; the next sync says it again.
        """
        unanswered, self._unanswered = self._unanswered, []
        for checkpoint, wanted, answer in unanswered:
            try:
                answer()
            except NotFound:
                checkpoints.mark_off_host(self._database, self._run_id, checkpoint.digest)  # thinned meanwhile
            except HostUnreachable:
                raise
            except ArmadaError as error:
                self._troubles.append(Trouble(cause_of(error), error, checkpoint.digest, checkpoint.step))
            else:
                if wanted:
                    checkpoints.mark_acknowledged(self._database, self._run_id, checkpoint.digest)

    def _say(self, checkpoint: Checkpoint, *, wanted: bool) -> None:
        """Tell the host about one checkpoint; the next bytes are not kept waiting for its answer."""
        home = asking(self.own)
        word = Acknowledge(run_id=self._run_id, digest=checkpoint.digest, home=home)
        if not wanted:
            word = Acknowledge(run_id=self._run_id, digest=checkpoint.digest, home=home, wanted=False)
        self._unanswered.append((checkpoint, wanted, self._session.begin(word)))
