"""Resume a run that ended early: the same run, folder and settings, from its last complete checkpoint."""

from __future__ import annotations

import json
import os
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

from armada.config.tasks.registry import TRAININGS
from armada.errors import ArmadaError, Conflict, HostUnreachable, NotFound, OutcomeUnknown, UnexpectedAnswer, UsageError
from armada.foundation.sanitize import sanitize_line
from armada.monitor.observe import observe
from armada.protocol.recorded import recorded_spec
from armada.protocol.runs import SubmitRun
from armada.provision.exclusive_lock import exclusive_lock
from armada.store import hosts as host_records
from armada.store import run_sync, runs, sweeps, transitions
from armada.verdicts.state import NOT_ON_HOST
from armada.verdicts.states import Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from armada.rpc.session import HostSession
    from armada.store.database import Database
    from armada.store.runs import Run


@dataclass(frozen=True, slots=True)
class Permits:
    """What the user permits the bundled trainer in this submission, and not in later ones."""

    restart_if_damaged: bool = False
    """Start from the beginning if every checkpoint on the host is damaged."""
    accept_changes: bool = False
    """Continue although data changed or states of the newest checkpoint are damaged: what `resume.accept_changes` permits."""

    def variables(self, submission: int) -> dict[str, str]:
        """Return the job's variables that say so. Each names the submission, for what the trainer permits only once.

        They travel with the secrets, the only other variables of one submission. Its next attempts get them, too.
        """
        given = {"ARMADA_RESTART_IF_DAMAGED": self.restart_if_damaged, "ARMADA_ACCEPT_CHANGES": self.accept_changes}
        return {name: str(submission) for name, is_given in given.items() if is_given}


NOTHING = Permits()


def resume_run(
    database: Database,
    session: HostSession,
    run: Run,
    *,
    permits: Permits = NOTHING,
    confirmed: Collection[str] = (),
    unattended: bool = False,
    say: Callable[[str], None] = lambda _: None,
) -> Run:
    """Submit a failed or cancelled run again. If several commands do so at the same time, only one succeeds.

    Args:
        database: The store.
        session: A session with the run's host.
        run: The run, as it was when the user requested the resume.
        permits: What the bundled trainer may do that it otherwise refuses.
        confirmed: The secrets that its host may have although only the host says that the run needs them.
        unattended: No user is present whose environment has the secrets: those of the lost submission must still be on
            the host.
        say: Called with the name of the process that already resumes it, if there is a wait.

    Returns:
        The updated run.

    Raises:
        Conflict: It has not ended, it succeeded, it never reached its host, another armada resumed it meanwhile, or its
            host asks for secrets that nobody confirmed.
        NotFound: Its host has no records of it.
        UsageError: A secret that it needs is not in home's environment, or it is no training that takes `permits`.
        OutcomeUnknown: The link broke during the submission, or its supervisor has not started yet. The same command
            finds out; nothing is started twice.
    """
    lock = session.home.lock(f"resume-{run.run_id}")
    with exclusive_lock(lock, f"resume of {run.run_id}", say):
        known = runs.find(database, run.run_id)
        if known.submission > run.submission:
            raise Conflict(
                f"{run.run_id} was just resumed by another armada and is {known.state}; nothing was started twice",
                hint=f"armada logs -f {run.run_id}",
            )
        return _resume(database, session, known, permits, confirmed, unattended=unattended)


def _resume(
    database: Database,
    session: HostSession,
    run: Run,
    permits: Permits,
    confirmed: Collection[str],
    *,
    unattended: bool,
) -> Run:
    observe(database, session, [run])
    run = runs.find(database, run.run_id)
    # Its host has the claim of an earlier resume that nothing has started yet. The same number starts once, however often.
    is_claimed = run.state == "submitted" and run.submission > 1
    _refuse(database, run, permits, is_claimed=is_claimed)
    submission = run.submission if is_claimed else run.submission + 1
    if unattended:
        request = SubmitRun(run_id=run.run_id, submission=submission, keep_secrets=True)
    else:
        secrets = _secrets(database, run, confirmed) | permits.variables(submission)
        request = SubmitRun(run_id=run.run_id, submission=submission, secrets=secrets)
    # Record this before the host can learn of it: whatever breaks from here on, the run is polled again, and synced to
    # its end. First the state: a sync that happens in between must not count as the final one.
    if not runs.set_state(database, run.run_id, "submitted", message=transitions.RESUMED, judged=run):
        raise Conflict(
            f"{run.run_id} changed while it was being resumed: it is {runs.find(database, run.run_id).state} now;"
            " nothing was started",
            hint=f"armada show {run.run_id}",
        )
    run_sync.reopen(database, run.run_id)
    host_records.mark_released(database, run.host, None)
    try:
        # A batch system's controller may be slow.
        session.call(request, timeout_s=60.0 if session.host.batch is None else 240.0)
    except HostUnreachable as error:
        _doubt(database, run, submission, "link_lost", error.message)
        raise OutcomeUnknown(
            f"the connection broke while {run.run_id} was submitted again ({error.message})",
            hint=f"armada show {run.run_id} shows whether it started; nothing is started twice",
            host=run.host,
        ) from error
    except UnexpectedAnswer as error:
        _doubt(database, run, submission, "outcome_unknown", error.message)
        hint = f"armada show {run.run_id} finds out; nothing is started twice"
        raise OutcomeUnknown(error.message, hint=hint, host=run.host) from error
    except OutcomeUnknown as error:
        _doubt(database, run, submission, "outcome_unknown", error.message)
        raise
    except ArmadaError as error:
        _take_back(database, run, submission)
        if isinstance(error, NotFound):
            raise NotFound(
                f"{run.host} has no files of {run.run_id}: it never reached the host, or was deleted there",
                hint=f"launch its experiment again: {_launch_again(database, run)}",
            ) from error
        raise
    observe(database, session, [runs.find(database, run.run_id)])
    return runs.find(database, run.run_id)


def _take_back(database: Database, run: Run, submission: int) -> None:
    """Record a run as it was before its host refused to submit it again.

    Another home may have resumed it, and a look may have seen that; or it saw the claim, which the host has taken back.
    """
    with database.transaction():
        known = runs.find(database, run.run_id)
        if known.state == "submitted" and known.submission <= submission:
            before = Verdict(run.state, run.reason, run.message, run.attempt, run.seq, run.because)
            facts = {"submission": run.submission, "told_at": run.told_at}
            runs.record(database, run.run_id, before, went_back=True, **facts)


def _doubt(database: Database, run: Run, submission: int, reason: str, message: str) -> None:
    """Record that it is unknown whether a submission has started, unless it was seen to wait, run or end since."""
    with database.transaction():
        known = runs.find(database, run.run_id)
        if known.submission < submission or known.state in ("submitted", "unknown"):
            runs.set_state(database, run.run_id, "unknown", reason=reason, message=message)


def refuse_other_settings(database: Database, run: Run, changes: Sequence[str]) -> None:
    """Refuse to resume a run with other settings: its plan is made once, with its job file, batch and estimates.

    Args:
        database: The store.
        run: The run.
        changes: Each `key=value`, as for `armada launch --set`.

    Raises:
        UsageError: There are changes; the hint is the launch that continues from the run's weights with them.
    """
    if not changes:
        return
    start = [f"start_from={run.run_id}"] if run.task in TRAININGS else []
    words = shlex.join(word for each in (*changes, *start) for word in ("--set", each))
    launch = sanitize_line(f"{_launch_again(database, run)} {words}", 2000)
    what = "a new run that starts with its weights" if start else "a new run"
    raise UsageError(f"{run.run_id} keeps the settings that it was launched with", hint=f"{what}: {launch}")


def _launch_again(database: Database, run: Run) -> str:
    """Return the command that launches the run's experiment again; for a cell of a sweep, with its values."""
    verb = run.task if run.task in {"prepare", "bench"} else "launch"
    words = f"armada {verb} --host {run.host} {shlex.quote(run.experiment) if run.experiment else 'FILE'}"
    told = recorded_spec(runs.spec(database, run.run_id)).sweep
    if run.sweep is None or told is None:
        return words
    before = sweeps.find(database, run.sweep).settings.get("overrides")
    changes = [*(str(each) for each in (before if isinstance(before, list) else [])), "sweep=null"]
    changes += [f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in (told.values or {}).items()]
    return sanitize_line(f"{words} {shlex.join(word for each in changes for word in ('--set', each))}", 2000)


def _refuse(database: Database, run: Run, permits: Permits, *, is_claimed: bool) -> None:
    if permits != NOTHING and run.task not in TRAININGS:
        raise UsageError(
            f"{run.run_id} is no training of the bundled trainer, so there is nothing to permit",
            hint=f"armada resume {run.run_id}",
        )
    again = f"to run it once more: {_launch_again(database, run)}"
    if run.state == "succeeded":
        weights = f"to continue from its weights: a new experiment with `start_from: {run.run_id}`"
        raise Conflict(f"{run.run_id} is done: it succeeded", hint=weights if run.task in TRAININGS else again)
    if not run.ended and run.reason == NOT_ON_HOST:
        weights = f"to continue from a checkpoint at home: a new experiment with `start_from: {run.run_id}`"
        raise Conflict(
            f"{run.run_id} is {run.state}: its host has no files of it",
            hint=weights if run.task in TRAININGS else again,
        )
    if not run.ended and not is_claimed:
        raise Conflict(f"{run.run_id} is {run.state}, so there is nothing to resume", hint=f"armada show {run.run_id}")


def unconfirmed_secrets(database: Database, run: Run, confirmed: Collection[str]) -> Conflict | None:
    """Return why the environment of this shell is not sent to a run's host yet; None if all that it asks for may be sent.

    Args:
        database: The store.
        run: The run. Where `armada recover` found it on its host, only home's own record of its launch counts.
        confirmed: The names that a person allows.

    Raises:
        UsageError: The run does not ask for one of these.
    """
    spec = recorded_spec(runs.spec(database, run.run_id))
    if others := sorted(set(confirmed).difference(spec.secrets)):
        known = ", ".join(spec.secrets) or "none"
        raise UsageError(
            sanitize_line(f"{run.run_id} does not ask for {', '.join(others)}", 500),
            hint=sanitize_line(f"the secrets that it asks for: {known}", 500),
        )
    asked = [name for name in spec.unconfirmed_secrets if name in spec.secrets and name not in confirmed]
    if not asked:
        return None
    what = (
        f"{run.run_id} was found by armada recover, and only its host, {run.host}, says that it needs these variables"
        f" of your environment: {', '.join(asked)}"
    )
    named = [name for name in spec.secrets if name in asked or name in confirmed]
    again = f"armada resume {run.run_id} --secrets {shlex.quote(','.join(named))}"
    return Conflict(sanitize_line(what, 1000), hint=sanitize_line(f"to send their values to {run.host}: {again}", 1000))


def _secrets(database: Database, run: Run, confirmed: Collection[str]) -> dict[str, str]:
    if (refusal := unconfirmed_secrets(database, run, confirmed)) is not None:
        raise refusal
    names = recorded_spec(runs.spec(database, run.run_id)).secrets
    if missing := [name for name in names if not os.environ.get(name)]:
        raise UsageError(
            f"{', '.join(missing)} is not set in this shell, and {run.run_id} needs it",
            hint=f"export {missing[0]}=…, then run the command again",
        )
    return {name: os.environ[name] for name in names}
