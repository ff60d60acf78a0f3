"""Report to a host that this home holds a run's checkpoints, will not fetch them, or has everything it wants.

The host records this per home. It deletes a checkpoint only once every home that registered for the run has reported
about it.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from armada.errors import ArmadaError, HostUnreachable, NotFound
from armada.foundation.sanitize import sanitize_line
from armada.home import own
from armada.protocol.homes import Settle, asking
from armada.protocol.outbox import Acknowledge, Prune
from armada.store import checkpoints
from armada.sync.causes import cause_of
from armada.sync.checkpoints.folders import require_same
from armada.sync.checkpoints.proof import is_doubted, prove
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
    """Reports to one run's host what this home has of the run.

    Args:
        context: The run and its host.
        troubles: The host's refusals are appended here.
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
        """Record what the host already knows; if it did not register this home, that is a trouble."""
        if entry.unregistered is not None:
            self._troubles.append(_unregistered(self._session.host.name, self._run_id, entry.unregistered))
        self._before = next((each for each in entry.homes if each.id == self.own.id), None)
        self._has_others = any(each.id != self.own.id for each in entry.homes)

    def acknowledge(self, digest: str | None = None) -> None:
        """Report to the host the checkpoints at home, or only one. Only from then on may the host delete them.

        `await_answers` reads the host's answers.
        """
        refused = {trouble.digest for trouble in self._troubles}
        for checkpoint in checkpoints.of_run(self._database, self._run_id):
            if checkpoint.digest in refused:
                continue  # it just failed
            if digest not in (None, checkpoint.digest) or not checkpoint.on_host or checkpoint.home_path is None:
                continue
            if checkpoint.acknowledged_at and (digest is not None or not self._must_say_again(checkpoint)):
                continue
            if is_doubted(checkpoint) and prove(self._database, checkpoint) is not Proof.PROVEN:
                continue
            if not any(told.digest == checkpoint.digest and wanted for told, wanted, _ in self._unanswered):
                self._say(checkpoint, wanted=True)

    def _must_say_again(self, checkpoint: Checkpoint) -> bool:
        """Whether the host lacks an acknowledgement that the store has: sent by the original of this home, without a name, or lost."""
        unknown = self._before is not None and checkpoint.digest not in self._before.held
        return unknown and prove(self._database, checkpoint) is Proof.PROVEN

    @property
    def may_decline(self) -> bool:
        """Whether another home's deletion may wait for this one's word."""
        return self._has_others and self._before is not None

    def decline(self, checkpoint: Checkpoint) -> None:
        """Tell a host that this home will not fetch a checkpoint, in case another home's deletion waits for that."""
        if self._has_others and self._before is not None and checkpoint.digest not in self._before.unwanted:
            self._say(checkpoint, wanted=False)

    def prune(self, digests: Sequence[str]) -> list[str]:
        """Ask the host to delete checkpoints; return those that it reports as deleted.

        Raises:
            FolderAway: The disk that their copies at home are on went away since the run's lock was taken.
        """
        if not digests:
            return []
        require_same(self._database, self._run_id)
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
        """Tell the host that this home has everything it wants of the run up to a submission. If this fails, the next sync repeats it."""
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
        """Read the host's answers to the reports. Until they arrive nothing counts as acknowledged.

        Raises:
            HostUnreachable: The link stayed down; the next sync reports again.
        """
        unanswered, self._unanswered = self._unanswered, []
        for checkpoint, wanted, answer in unanswered:
            try:
                answer()
            except NotFound:
                checkpoints.mark_off_host(self._database, self._run_id, checkpoint.digest)  # deleted meanwhile
            except HostUnreachable:
                raise
            except ArmadaError as error:
                self._troubles.append(Trouble(cause_of(error), error, checkpoint.digest, checkpoint.step))
            else:
                if wanted:
                    checkpoints.mark_acknowledged(self._database, self._run_id, checkpoint.digest)

    def _say(self, checkpoint: Checkpoint, *, wanted: bool) -> None:
        """Report one checkpoint to the host; the transfer continues without waiting for the answer."""
        require_same(self._database, self._run_id)  # no deletion may build on what is no longer here
        home = asking(self.own)
        word = Acknowledge(run_id=self._run_id, digest=checkpoint.digest, home=home)
        if not wanted:
            word = Acknowledge(run_id=self._run_id, digest=checkpoint.digest, home=home, wanted=False)
        self._unanswered.append((checkpoint, wanted, self._session.begin(word)))


def _unregistered(host: str, run_id: str, why: str) -> Trouble:
    why = sanitize_line(why, 200)
    error = ArmadaError(
        f"did not record that this home wants {run_id} ({why}): another home may delete there what is not here yet",
        hint=f"free some space on {host}, or make its root folder writable; then run `armada sync now {run_id}`",
        host=host,
    )
    return Trouble("disk_host", error)
