"""Collect everything known about why a run is in its state, for `armada why`."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from signal import Signals
from typing import TYPE_CHECKING

from armada.foundation.sanitize import sanitize_line
from armada.foundation.validation import mapping, whole
from armada.monitor.step_times import find_advice
from armada.protocol.files import Event, FailureEvent, FindingEvent, read_event
from armada.store import checkpoints, metrics, operations, runs, transitions
from armada.verdicts.advice import Situation, Step, next_steps
from armada.verdicts.again import resumes_from

if TYPE_CHECKING:
    from collections.abc import Sequence

    from armada.protocol.files import Complaint
    from armada.protocol.observation import Observation
    from armada.store.checkpoints import Checkpoint
    from armada.store.database import Database
    from armada.store.runs import Run

LOST = ("host_rebooted", "supervisor_lost")
_LINES = 20
_NOT_TAKEN = ("not taken", "cannot be taken", "incomplete", "could not be finished", "is withdrawn", "is skipped")


@dataclass(frozen=True, slots=True)
class Retries:
    """How often a run was resumed automatically, and how often it may be."""

    used: int
    allowed: int
    words: str


@dataclass(frozen=True, slots=True)
class Page:
    """The content of the page. Texts from the host are sanitized.

    Attributes:
        exit: A description of the exit code or signal.
        rank: The rank that failed first, if there are several and it is known.
        lines: The last lines of its output.
        others: Errors of other ranks.
        not_taken: Checkpoints that were not accepted, and why.
        is_told: The host recorded how the run failed; false if its supervisor was lost, or is of an older armada.
        stopped: Processes that SIGSTOP suspended.
        advice: What would make its steps faster.
    """

    exit: str | None
    signal: int | None
    rank: int | None
    lines: list[str]
    others: list[str]
    kept: list[Checkpoint]
    not_taken: list[str]
    retries: Retries | None
    is_told: bool
    stopped: tuple[int, ...] = ()
    steps: list[Step] = field(default_factory=list)
    advice: str | None = None


def gather(database: Database, run: Run, stopped: tuple[int, ...] = ()) -> Page:
    """Collect the page from what home knows.

    Args:
        database: The store.
        run: The run as last observed.
        stopped: Its suspended processes according to the host.
    """
    events = [read_event(line) for line in metrics.events(database, run.run_id)]
    failure = _failure_of(run, events)
    kept = checkpoints.of_run(database, run.run_id)
    signal = failure.signal if failure is not None else None
    there = [checkpoint.step for checkpoint in kept if checkpoint.on_host]
    situation = Situation(
        run_id=run.run_id,
        host=run.host,
        state=run.state,
        reason=run.reason,
        experiment=run.experiment,
        resumes_from=resumes_from(runs.spec(database, run.run_id), there),
        has_checkpoint=bool(there),
        only_there=sum(checkpoint.on_host and checkpoint.home_path is None for checkpoint in kept),
        stopped=stopped,
        is_bench=run.task == "bench",
        handed_over_by=_handed_over_by(database, run),
    )
    return Page(
        exit=_exit(run, signal),
        signal=signal,
        rank=failure.rank if failure is not None else None,
        lines=list(failure.lines[-_LINES:]) if failure is not None else [],
        others=[_complaint(other) for other in failure.others[:8]] if failure is not None else [],
        kept=kept,
        not_taken=_not_taken(events),
        retries=_retries(database, run, events),
        is_told=failure is not None,
        stopped=stopped,
        steps=next_steps(situation),
        advice=find_advice(database, run.run_id),
    )


def _handed_over_by(database: Database, run: Run) -> str | None:
    """Return the command that was to hand over a cell of a sweep which no host has."""
    if run.sweep is None or run.reason not in ("provision_failed", "submit_refused", "interrupted"):
        return None
    if transitions.was_seen(database, run.run_id):
        return None
    launches = operations.of_run(database, run.sweep, kind="launch")
    return sanitize_line(shlex.join(("armada", *launches[0].argv[1:])), 1000) if launches else None


def stopped_in(seen: Observation) -> tuple[int, ...]:
    """Return which of a run's processes are suspended, from one observation."""
    return seen.evidence.stopped[:20] if seen.evidence is not None else ()


def _failure_of(run: Run, events: Sequence[Event]) -> FailureEvent | None:
    """Return the failure of the newest attempt, if that ended the run."""
    if run.state != "failed":
        return None
    found = [event for event in events if isinstance(event, FailureEvent) and event.attempt == run.attempt]
    return found[-1] if found else None


def _exit(run: Run, number: int | None) -> str | None:
    if number:
        name = Signals(number).name if number in set(Signals) else "no name"
        return f"signal {number} ({name})"
    return None if run.exit_code is None else f"code {run.exit_code}"


def _complaint(other: Complaint) -> str:
    whose = "" if other.rank is None else f"rank {other.rank}: "
    return f"{whose}{other.message or ''}"


def _not_taken(events: Sequence[Event]) -> list[str]:
    """Return the newest attempt's findings about unusable checkpoints."""
    newest = max((event.attempt or 0 for event in events), default=0)
    said = [event.message or "" for event in events if isinstance(event, FindingEvent) and event.attempt == newest]
    return [words for words in said if any(part in words for part in _NOT_TAKEN)][-10:]


def _retries(database: Database, run: Run, events: Sequence[Event]) -> Retries | None:
    batch = mapping(runs.spec(database, run.run_id).get("scheduler"))
    if allowed := whole(batch.get("max_retries")):
        failures = [event for event in events if isinstance(event, FailureEvent)]
        # A resume by the user resets the number of retries. Hosts of the first release do not report the submission.
        tried = {event.attempt for event in failures if event.submission in (None, run.submission)}
        used = min(allowed, len(tried - {run.attempt}))
        return Retries(used, allowed, "of `max_retries`, for attempts that failed")
    allowed = whole(runs.setting(database, run.run_id, "retries")) or 0
    if not allowed:
        return None
    used = min(allowed, max(0, run.submission - 1))
    words = "of `retries`, for runs lost with their host or supervisor"
    if run.state == "failed" and run.reason not in LOST:
        words += "; this failure counts for neither"
    return Retries(used, allowed, words)
