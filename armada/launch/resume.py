"""Go on with a run that ended before it was done: the same run, folder and settings, from its last whole checkpoint."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from armada.errors import ArmadaError, Conflict, HostUnreachable, NotFound, OutcomeUnknown, UnexpectedAnswer, UsageError
from armada.monitor.observe import observe
from armada.protocol.recorded import recorded_spec
from armada.protocol.runs import SubmitRun
from armada.provision.exclusive_lock import exclusive_lock
from armada.store import hosts as host_records
from armada.store import run_sync, runs
from armada.verdicts.state import NOT_ON_HOST

if TYPE_CHECKING:
    from collections.abc import Callable

    from armada.rpc.session import HostSession
    from armada.store.database import Database
    from armada.store.runs import Run


def resume_run(
    database: Database,
    session: HostSession,
    run: Run,
    *,
    unattended: bool = False,
    say: Callable[[str], None] = lambda _: None,
) -> Run:
    """Hand a failed or cancelled run to its host once more; of several who ask at the same time, one does.

    Args:
        database: The store.
        session: With the run's host.
        run: Which, as it was when its resumption was asked for.
        unattended: Nobody is there whose environment has the secrets: those of the lost submission have to be on the host still.
        say: Told who resumes it already, where there is anything to wait for.

    Returns:
        The run as it is after that.

    Raises:
        Conflict: It has not ended, it is done, it never got as far as its host, or another armada resumed it meanwhile.
        NotFound: Its host has nothing of it.
        UsageError: A secret it needs is not in home's environment.
        OutcomeUnknown: The link broke during the hand-over; the same command finds out, and nothing is started twice.
    """
    lock = session.home.lock(f"resume-{run.run_id}")
    with exclusive_lock(lock, f"resume of {run.run_id}", say):
        known = runs.find(database, run.run_id)
        if known.submission > run.submission:
            raise Conflict(
                f"{run.run_id} was resumed by another armada a moment ago and is {known.state}; nothing was started twice",
                hint=f"armada logs -f {run.run_id}",
            )
        return _resume(database, session, known, unattended=unattended)


def _resume(database: Database, session: HostSession, run: Run, *, unattended: bool) -> Run:
    observe(database, session, [run])
    run = runs.find(database, run.run_id)
    _refuse(run)
    submission = run.submission + 1
    if unattended:
        request = SubmitRun(run_id=run.run_id, submission=submission, keep_secrets=True)
    else:
        request = SubmitRun(run_id=run.run_id, submission=submission, secrets=_secrets(database, run))
    # Before the host can have heard of it: whatever breaks from here on, the run is looked at again, and synced to its end.
    # First its state: a sync of what ended that is done in between must not call this the last.
    runs.set_state(database, run.run_id, "submitted", message="handed over again")
    run_sync.reopen(database, run.run_id)
    host_records.mark_released(database, run.host, None)
    try:
        # A batch system's controller may take its time.
        session.call(request, timeout_s=60.0 if session.host.batch is None else 240.0)
    except HostUnreachable as error:
        runs.set_state(database, run.run_id, "unknown", reason="link_lost", message=error.message)
        raise OutcomeUnknown(
            f"the link broke while {run.run_id} was handed over again ({error.message})",
            hint=f"armada show {run.run_id} finds out; nothing is started twice",
            host=run.host,
        ) from error
    except UnexpectedAnswer as error:
        runs.set_state(database, run.run_id, "unknown", reason="outcome_unknown", message=error.message)
        hint = f"armada show {run.run_id} finds out; nothing is started twice"
        raise OutcomeUnknown(error.message, hint=hint, host=run.host) from error
    except OutcomeUnknown as error:
        runs.set_state(database, run.run_id, "unknown", reason="outcome_unknown", message=error.message)
        raise
    except ArmadaError as error:  # it said no: all is as it was
        runs.set_state(database, run.run_id, run.state, reason=run.reason, message=run.message)
        if isinstance(error, NotFound):
            raise NotFound(
                f"{run.host} has nothing of {run.run_id}: it never got that far, or was deleted there",
                hint=f"launch its experiment again: armada launch --host {run.host} FILE",
            ) from error
        raise
    observe(database, session, [runs.find(database, run.run_id)])
    return runs.find(database, run.run_id)


def _refuse(run: Run) -> None:
    again = f"to run it once more: armada launch --host {run.host} FILE"
    if run.state == "succeeded":
        weights = f"to train on from its weights, a new experiment with `start_from: {run.run_id}`"
        raise Conflict(f"{run.run_id} is done: it succeeded", hint=weights if run.task == "sft" else again)
    if not run.ended and run.reason == NOT_ON_HOST:
        weights = f"a new run from a checkpoint at home: `start_from: {run.run_id}`"
        raise Conflict(
            f"{run.run_id} is {run.state}: its host has nothing of it", hint=weights if run.task == "sft" else again
        )
    if not run.ended:
        raise Conflict(f"{run.run_id} is {run.state}, so there is nothing to resume", hint=f"armada show {run.run_id}")


def _secrets(database: Database, run: Run) -> dict[str, str]:
    job = recorded_spec(runs.spec(database, run.run_id)).job
    names = (job.secrets or ()) if job is not None else ()
    if missing := [name for name in names if not os.environ.get(name)]:
        raise UsageError(
            f"{', '.join(missing)} is not set here, and {run.run_id} needs it",
            hint=f"export {missing[0]}=…, then again",
        )
    return {name: os.environ[name] for name in names}
