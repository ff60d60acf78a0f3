"""Stop a run, and report how it ended."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

from armada.config.schedulers import cancel_command
from armada.errors import Conflict, NotFound, OutcomeUnknown
from armada.foundation.sanitize import sanitize_line
from armada.monitor.look import where
from armada.monitor.observe import ask_about, observe
from armada.protocol.recorded import recorded_spec
from armada.protocol.runs import StopRun
from armada.store import runs, transitions
from armada.units import counted_processes
from armada.verdicts import stopping
from armada.verdicts.presence import There
from armada.verdicts.state import NOT_ON_HOST, PUT_BACK

if TYPE_CHECKING:
    from collections.abc import Callable

    from armada.rpc.session import HostSession
    from armada.store.database import Database
    from armada.store.runs import Run

_GRACE_S = 60.0
"""The grace period if a plan has none, in seconds."""

KILL_S = 30.0
"""Seconds after the grace period for signalling every process and for the supervisor's last record."""


def request_of(database: Database, run: Run, grace_s: float | None) -> StopRun:
    """Make the request that ends a run.

    Args:
        database: The store.
        run: Which.
        grace_s: Seconds between SIGTERM and SIGKILL; None for what the run's spec says.
    """
    if grace_s is None:
        told_s = recorded_spec(runs.spec(database, run.run_id)).stop_grace_s
        grace_s = told_s if told_s is not None else _GRACE_S
    return StopRun(run_id=run.run_id, grace_s=grace_s, root=run.root_id)


def stop_run(
    database: Database, session: HostSession, run: Run, grace_s: float | None, say: Callable[[str], None]
) -> Run:
    """Ask the host to stop a run and wait until it has ended.

    Args:
        database: The store.
        session: A session with the run's host.
        run: The run.
        grace_s: Seconds between SIGTERM and SIGKILL; None for the value in the run's spec.
        say: Receives progress messages.

    Returns:
        The ended run; `cancelled` unless it had ended before.

    Raises:
        Conflict: It ended, and was resumed before its end could be observed; or it was submitted while its host was asked.
        OutcomeUnknown: It had not ended well after the grace period, or its folder is gone and it may run on an
            invisible machine.
    """
    request = request_of(database, run, grace_s)
    grace_s = request.grace_s
    try:
        answer = session.call(request, timeout_s=60.0)
    except NotFound:
        observe(database, session, [run])
        run = runs.find(database, run.run_id)
        _end_remains(session, run, request.grace_s, say)
        return _conclude(database, session, run)
    recorded = ""
    if answer.problem is not None:
        recorded = (
            f"the stop is recorded on {run.host}, and the run's supervisor ends it; the scheduler did not answer:"
            f" {sanitize_line(answer.problem, 200)}"
        )
    asked = answer.submission  # agents of the first release do not send it
    if asked is not None and asked < run.submission:
        observe(database, session, [run])  # what a host goes on showing is believed after a while
        run = runs.find(database, run.run_id)
    if asked is not None and asked < run.submission and not run.ended:
        raise _shows_less(database, run, asked)
    known = run.submission  # above `asked` where an older copy of a disk shows less of a run than was seen to end
    deadline = time.monotonic() + grace_s + KILL_S
    while True:
        observe(database, session, [run])
        run = runs.find(database, run.run_id)
        if asked is not None and run.submission > max(asked, known):
            raise Conflict(
                f"{run.run_id} ended, was then resumed by another armada, and is {run.state}",
                hint=f"armada stop {run.run_id} ends it again",
                host=run.host,
            )
        if run.reason == NOT_ON_HOST:
            return _conclude(database, session, run)
        if run.ended:
            return run
        if time.monotonic() > deadline:
            raise OutcomeUnknown(
                f"{run.run_id} is still {run.state}, {grace_s + KILL_S:.0f} s after it was told to stop"
                + (f": {run.message}" if run.message else "")
                + (f"; {recorded}" if recorded else ""),
                hint=f"armada show {run.run_id}; armada logs {run.run_id}",
                host=run.host,
            )
        say(recorded or f"{run.run_id} · grace {grace_s:.0f} s")
        time.sleep(0.3)


def _shows_less(database: Database, run: Run, asked: int) -> OutcomeUnknown:
    """Say that a host has recorded the stop of an earlier submission than was seen there."""
    scheduler = _scheduler_of(database, run)
    hint = f"in a few minutes: armada stop {run.run_id}"
    if run.reason == PUT_BACK and scheduler:
        cancel = cancel_command(scheduler, run.run_id, run.submission)
        hint += f"; if it is still unknown then: {cancel}  # on the host; then armada rm {run.run_id} --force"
    return OutcomeUnknown(
        f"{run.host} shows submission {asked} of {run.run_id}, and it showed {run.submission} before: its disk may have been"
        " restored from a snapshot, or its file system shows old files",
        hint=hint,
        host=run.host,
    )


def _scheduler_of(database: Database, run: Run) -> str:
    """Return the batch system that a run was planned for; an empty word if it was planned for none."""
    spec = recorded_spec(runs.spec(database, run.run_id))
    return (spec.scheduler.kind or "") if spec.scheduler is not None else ""


def _end_remains(session: HostSession, run: Run, grace_s: float, say: Callable[[str], None]) -> None:
    """End the processes of a run whose root was wiped or made anew since: the host ends nothing for a root that is gone.

    What lives on after that is in the next look.
    """
    deadline = time.monotonic() + grace_s + KILL_S
    asked = False
    while True:
        look = ask_about(session, run)
        remains = look.run.remains
        if remains is None or not remains.processes or where(run, look.folder) is not There.REMOVED:
            return
        if not asked:
            asked = True
            with contextlib.suppress(NotFound):  # they ended just now
                session.call(StopRun(run_id=run.run_id, grace_s=grace_s, root=look.folder.root), timeout_s=60.0)
        elif time.monotonic() > deadline:
            return
        say(f"{run.run_id} · grace {grace_s:.0f} s")
        time.sleep(0.3)


def _conclude(database: Database, session: HostSession, run: Run, *, again: bool = True) -> Run:
    """Record the end of a run of which its host has no records, if that can be known.

    If another armada saw meanwhile that it is not there, that is judged once more.
    """
    scheduler = _scheduler_of(database, run)
    look = ask_about(session, run)
    there, remains = where(run, look.folder), look.run.remains
    seen = stopping.NotSeen(
        run.state,
        there,
        was_there=transitions.was_seen(database, run.run_id),
        queued=bool(scheduler),
        is_shared=there is not There.REMOVED or (remains is not None and remains.is_shared),
        processes=remains.processes if remains is not None else None,
        is_guess=run.is_guess,
    )
    removed = f"its folder on {run.host} was removed while it {'ran' if run.attempt else 'waited'}"
    outcome = stopping.judge(seen)
    if outcome is stopping.Outcome.AWAY:
        raise OutcomeUnknown(
            f"it is unknown whether {run.run_id} runs: {run.message}",
            hint="run the command again when its root is back on the host",
            host=run.host,
        )
    if outcome is stopping.Outcome.HERE:
        raise OutcomeUnknown(
            f"it is unknown whether {run.run_id} runs: {run.host} did not find it, and shows its folder now, or cannot read it",
            hint=f"armada stop {run.run_id}",
            host=run.host,
        )
    if outcome is stopping.Outcome.LIVES:
        raise OutcomeUnknown(
            f"{removed}, and {counted_processes(seen.processes or 0)} of it live there",
            hint=f"armada hosts reap {run.host} {run.run_id}",
            host=run.host,
        )
    if outcome is stopping.Outcome.IN_A_QUEUE:
        cancel = cancel_command(scheduler, run.run_id, run.submission)
        raise OutcomeUnknown(
            f"{removed}, and with it its job id: it is unknown whether {scheduler} still has the job",
            hint=f"{cancel}  # on the host; then armada rm {run.run_id} --force",
            host=run.host,
        )
    if outcome is stopping.Outcome.UNTOLD:
        raise OutcomeUnknown(
            f"{removed}; its host does not say whether processes of it live there",
            hint=f"pkill -f -- '--run {run.run_id}'  # on the host; then armada rm {run.run_id} --force",
            host=run.host,
        )
    if outcome is stopping.Outcome.ELSEWHERE:
        raise OutcomeUnknown(
            f"{removed}; none of its processes is on the machine that answered; it may run on another one",
            hint=f"pkill -f -- '--run {run.run_id}'  # on the machine where it ran; then armada rm {run.run_id} --force",
            host=run.host,
        )
    if outcome is not stopping.Outcome.AS_IT_ENDED:
        # Only home's own record knows of a run that was never there: its launch was interrupted before its host learned
        # of it.
        gone = f"{removed}; none of its processes is left there"
        message = gone if outcome is stopping.Outcome.REMOVED else None
        is_set = runs.set_state(database, run.run_id, "cancelled", reason="killed_by_user", message=message, judged=run)
        now = runs.find(database, run.run_id)
        if not is_set and not now.ended:
            if again and now.reason == NOT_ON_HOST:
                return _conclude(database, session, now, again=False)
            raise Conflict(
                f"{run.run_id} changed while it was being stopped: it is {now.state} now",
                hint=f"armada stop {run.run_id} stops it",
                host=run.host,
            )
    return runs.find(database, run.run_id)
