"""Decide a run's state from evidence. No other module does.

A host shows files and processes; it never says "failed". This table says what they mean together. The first matching
row decides (`because` of the verdict names the row, and `armada ps --why` shows it):

| evidence                                                        | state      | reason          |
|-----------------------------------------------------------------|------------|-----------------|
| the supervisor wrote an end (state.json, or the attempt's exit) | as written | as written      |
| no folder of the run on the host, processes of it live there    | running    | folder_removed  |
| nothing of the run on the host                                  | unknown    | not_on_host     |
| its disk was reset to before a resume that was seen there, the  | unknown    | put_back        |
| … end it shows is an earlier one, and a job may live elsewhere  |            |                 |
| its records there cannot be read                                | unknown    | unreadable      |
| its disk shows an earlier submission than was seen there, and   | see below  | of that one     |
| … says that the later one was refused: it counts no more        |            |                 |
| no submission claimed                                           | preparing  |                 |
| … and its end is known                                          | as before  |                 |
| … and it was submitted there before, processes of it live there | running    | folder_removed  |
| … and it was submitted there before, none lives there           | unknown    | put_back        |
| claimed, no supervisor has started it                           | submitted  |                 |
| … and its job's id is not recorded, but its supervisor wrote    | as written |                 |
| supervisor alive                                                | as written |                 |
| … and wrote “running”, and no progress for `stall_after`        | running    | stalled         |
| its batch system: it waits, or waits again                      | queued     | as written      |
| its batch system reported so before its supervisor started      | running    |                 |
| its batch system: held                                          | queued     | held            |
| its batch system: it runs, or is about to end                   | running    |                 |
| its batch system: it ended, or there is no such job, and        | running    | supervisor_lost |
| … processes of the run live on the machine that answers         |            |                 |
| its batch system: it ended, and no end was written              | see below  | the engine's:   |
| … and no stop was requested                                     |            | only told       |
| its batch system, several times: there is no such job           | failed     | gone: a guess   |
| … and a stop was requested                                      | cancelled  | killed_by_user  |
| its batch system does not answer                                | as before  |                 |
| liveness cannot be known from here                              | as written |                 |
| supervisor dead, processes of the run alive                     | running    | supervisor_lost |
| the host was rebooted since                                     | failed     | host_rebooted   |
| supervisor dead, none alive, a stop was requested               | cancelled  | killed_by_user  |
| supervisor dead, none alive, no attempt begun                   | failed     | never_started   |
| supervisor dead, none alive                                     | failed     | supervisor_lost |

A job that its batch system ended before its supervisor could write anything was removed (cancelled: `removed`, or
`killed_by_user` if a stop was requested), ran out of time or memory, or lost its node (failed). Nobody but the batch
system told that: it may put the job back into its queue, and the run is still polled for a while (`guesses`). A run
that was told to stop does not start again. While a batch system does not answer, the last known state stays and its age
is shown. The host corrects a batch system's status by the job's signs of life before home sees it
(`armada_agent/verdicts/liveness.py`).
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from armada.foundation.sanitize import last_states, sanitize_line
from armada.units import span
from armada.verdicts.states import ENDED, STATES, Verdict

if TYPE_CHECKING:
    from armada.protocol.observation import Observation
    from armada.protocol.records import Attempt, Evidence, SchedulerStatus, State, Submission

NOT_ON_HOST = "not_on_host"
FOLDER_REMOVED = "folder_removed"
PUT_BACK = "put_back"
SUPERVISOR_LOST = "supervisor_lost"
REMOVED_IN_RUN = "its folder on the host was removed while it ran; the job continues"
LIVES_ON = "its supervisor died; the job itself continues"


@dataclasses.dataclass(frozen=True, slots=True)
class Newest:
    """The evidence about the newest submission, without what earlier submissions wrote.

    Attributes:
        evidence: All of the evidence.
        submission: None if nothing was submitted.
        state: None if that submission's supervisor wrote nothing.
        attempt: None if that submission began no attempt.
        number: Number of the newest attempt of any submission.
        seq: Number of the newest record of any submission; None if unknown.
    """

    evidence: Evidence | None
    submission: Submission | None = None
    state: State | None = None
    attempt: Attempt | None = None
    number: int = 0
    seq: int | None = None


def of_newest_submission(evidence: Evidence | None) -> Newest:
    """Leave out what earlier submissions wrote; the numbers of attempts and records are kept."""
    if evidence is None:
        return Newest(None)
    submission, state, attempt = evidence.submission, evidence.state, evidence.attempt
    newest = submission.number if submission is not None else None
    number = (attempt.number if attempt is not None else None) or (state.attempt if state is not None else None) or 0
    seq = state.seq if state is not None else None
    if attempt is not None and _is_of_earlier(attempt, state, newest):
        attempt = attempt.model_copy(update={"run": None, "exit": None})
    elif attempt is not None and attempt.exit is not None and _is_earlier(attempt.exit.submission, newest):
        attempt = attempt.model_copy(update={"exit": None})
    if state is not None and _is_earlier(state.submission, newest):
        state = None
    return Newest(evidence, submission, state, attempt, number, seq)


def submission_shown(evidence: Evidence | None, known: int) -> int | None:
    """Return the newest submission of a run that its host shows; None if it shows none.

    In a folder that was reset to an older copy, a supervisor that lives writes its state of a submission that has no
    folder there. Such a word counts up to the submission that is known.

    Args:
        evidence: What the host shows.
        known: The newest submission that was seen there.
    """
    if evidence is None or evidence.submission is None:
        return None
    state, attempt = evidence.state, evidence.attempt
    records = (state, *((attempt.run, attempt.exit) if attempt is not None else ()))
    named = [each.submission for each in records if each is not None and (each.submission or 0) <= known]
    return max((number for number in (evidence.submission.number, *named) if number), default=None)


def of_put_back(evidence: Evidence, verdict: Verdict, *, submission: int, attempt: int, seq: int) -> Verdict:
    """Decide the state of a run of which its host shows an older copy, and shows an earlier submission than was seen there.

    A batch system's jobs do not end with a file server's disk, and neither do processes that live.

    Args:
        evidence: What the host shows.
        verdict: Of that.
        submission: The submission that was seen there, and not seen to end.
        attempt: Number of the newest attempt that was seen there.
        seq: Number of the newest record that was seen there.
    """
    job = evidence.submission.job if evidence.submission is not None else None
    lives_elsewhere = job is not None and job.scheduler not in (None, "direct")
    if verdict.state not in ENDED or not (lives_elsewhere or evidence.processes):
        return verdict
    words = (
        f"its host shows submission {submission_shown(evidence, submission)} of it, and showed {submission} before:"
        " its disk may have been restored from a snapshot"
    )
    message = f"{words}; submission {submission} may still wait or run"
    return Verdict("unknown", PUT_BACK, message, attempt, seq, words)


def was_refused(
    evidence: Evidence, state: str, reason: str | None, *, known: tuple[int, int, int], seen: tuple[int, int, int]
) -> bool:
    """Decide whether the submission that is known of a run was never made: its host says that it was refused.

    Then it was seen as a claim at most. More than that, shown no longer, was lost with a disk that was put back.

    Args:
        evidence: What the host shows.
        state: The run's known state.
        reason: The reason of that state.
        known: (submission, attempt, number) of the last record that was known.
        seen: The same of the last record that the host shows now, after that.
    """
    if evidence.refused is None or state in ("queued", "running") or reason == PUT_BACK:
        return False
    return seen[0] < known[0] <= evidence.refused and seen[1:] >= known[1:]


def shows_no_more(evidence: Evidence | None, verdict: Verdict) -> bool:
    """Whether a host shows a run's folder alone: no submission, and no process. That says nothing against a known end."""
    return verdict.state == "preparing" and evidence is not None and not evidence.processes


def of_unsubmitted(evidence: Evidence, verdict: Verdict) -> Verdict:
    """Decide the state of a run that was submitted to its host, and of which its folder there shows no submission.

    Somebody removed the folder and its job made it again, or the disk was reset to before the submission.

    Args:
        evidence: What the host shows.
        verdict: Of that.
    """
    because = "its folder is on the host without its submission, which was there before"
    if evidence.processes:
        because += f"; {evidence.processes} of the run's processes live there"
        return dataclasses.replace(
            verdict, state="running", reason=FOLDER_REMOVED, message=REMOVED_IN_RUN, because=because
        )
    message = f"{because}: somebody may have removed the folder, or its disk may have been restored from a snapshot"
    return dataclasses.replace(verdict, state="unknown", reason=PUT_BACK, message=message, because=because)


def _is_of_earlier(attempt: Attempt, state: State | None, newest: int | None) -> bool:
    """Tell whether an attempt belongs to an earlier submission: by its own records, or by the state that this one wrote.

    A supervisor that was killed just before it started its job left no record; `stop` wrote the exit of its attempt.
    """
    if attempt.run is not None:
        return _is_earlier(attempt.run.submission, newest)
    if attempt.exit is not None and attempt.exit.submission is not None:
        return _is_earlier(attempt.exit.submission, newest)
    if state is None or (attempt.number or 0) > (state.attempt or 0):
        return False
    return _is_earlier(state.submission, newest)


def _is_earlier(own: int | None, newest: int | None) -> bool:
    return own is not None and newest is not None and own < newest


def decide(observed: Observation, stall_after_s: float | None = None) -> Verdict:
    """Decide a run's state from its part of a `run.observe` answer.

    Args:
        observed: What its host shows of it.
        stall_after_s: Seconds without a heartbeat after which a running job counts as stalled; None: never.
    """
    newest = of_newest_submission(observed.evidence)
    verdict = _decide(observed, newest)
    evidence = observed.evidence
    if verdict.state == "running" and evidence is not None and evidence.stopped:
        words = f"SIGSTOP has stopped {len(evidence.stopped)} of its processes"
        message = verdict.message or f"{words}{_woken_by(evidence.stopped)}"
        verdict = dataclasses.replace(verdict, message=message, because=f"{verdict.because}; {words}")
    quiet_s = quiet_for(observed)
    if verdict.state != "running" or verdict.reason or stall_after_s is None or quiet_s < stall_after_s:
        return verdict
    silence = f"no progress for {span(quiet_s)}"
    message, because = f"{silence}{_beat(evidence)}", f"{verdict.because}; {silence}"
    return dataclasses.replace(verdict, reason="stalled", message=message, because=because)


def _woken_by(pids: tuple[int, ...]) -> str:
    return f": kill -CONT {' '.join(map(str, pids[:5]))} on its host continues them"


def quiet_for(observed: Observation) -> float:
    """Return the seconds since a running job last made progress, by its host's clock; 0 if unknown."""
    return (observed.evidence.quiet_s if observed.evidence is not None else None) or 0.0


def _decide(observed: Observation, newest: Newest) -> Verdict:
    state, attempt, number = newest.state, newest.attempt, newest.number

    def verdict(because: str, word: str, reason: str | None = None, message: str | None = None) -> Verdict:
        if word not in STATES:
            reason = reason or "newer_armada"
            message = f"its supervisor wrote “{sanitize_line(word, 40)}”, a state of a newer armada than this one: update armada here"
            word = "unknown"
        return Verdict(
            word,
            sanitize_line(reason, 60) if reason else None,
            sanitize_line(last_states(message)) if message else None,
            number,
            newest.seq or 0,
            because,
        )

    if state is not None and state.state in ENDED:
        return verdict("its supervisor wrote the end", state.state, state.reason, state.message)
    exit_ = attempt.exit if attempt is not None else None
    if exit_ is not None and exit_.state in ENDED:
        return verdict(f"the exit of attempt {number} is written", exit_.state, exit_.reason, exit_.message)
    if not observed.exists and observed.remains is not None and (left := observed.remains.processes):
        because = f"its folder is not on the host; {left} of its processes are alive there"
        return verdict(because, "running", FOLDER_REMOVED, REMOVED_IN_RUN)
    if not observed.exists:
        because = "nothing of the run is on the host"
        return verdict(because, "unknown", NOT_ON_HOST, "the host has no folder of this run")
    if (evidence := observed.evidence) is None:
        return verdict("its records on the host cannot be read", "unknown", "unreadable", _first_finding(observed))
    submission = newest.submission
    if submission is None or not submission.claimed:
        return verdict("its folder is on the host; no submission was claimed", "preparing")
    if submission.job is None and state is not None and state.state:
        # The answer of the batch system was lost. Its job has begun all the same.
        because = f"its supervisor wrote “{sanitize_line(state.state, 20)}”; which job it belongs to is not recorded"
        return verdict(because, state.state, state.reason, state.message)
    if submission.job is None:
        because = f"submission {submission.number or 0} is claimed; no supervisor has started it"
        return verdict(because, "submitted", None, "claimed on the host, not started yet")
    if evidence.scheduler is not None:
        found = verdict(*_by_scheduler(evidence.scheduler, state, evidence))
        is_told = found.state in ENDED and evidence.scheduler.state == "ended" and not evidence.stop_wished
        return dataclasses.replace(found, only_told=is_told)
    began = attempt is not None and attempt.run is not None
    if evidence.lacks_end:
        because = f"the job of attempt {number} ended, and its supervisor died before it wrote that"
        return verdict(because, "running", None, "its job ended; its end is being completed")
    written = (state.state if state is not None else None) or ("running" if began else "submitted")
    if evidence.supervisor not in ("dead", "none"):
        alive = (
            "its supervisor lives"
            if evidence.supervisor == "alive"
            else "it is unknown whether its supervisor is alive"
        )
        wrote = f"{alive} and wrote “{sanitize_line(written, 20)}”{_beat(evidence)}"
        return verdict(wrote, written, *((state.reason, state.message) if state is not None else ()))
    return verdict(*_without_supervisor(evidence, attempt, number))


def _without_supervisor(evidence: Evidence, attempt: Attempt | None, number: int) -> tuple[str, str, str, str]:
    """Decide (because, state, reason, message) of a run whose supervisor is dead and wrote no end."""
    if evidence.processes:
        because = f"its supervisor is dead; {evidence.processes} of the run's processes live"
        return because, "running", SUPERVISOR_LOST, LIVES_ON
    if evidence.rebooted:
        because = "the host was restarted since its supervisor began; no exit was written"
        return because, "failed", "host_rebooted", "the host was restarted while the run was on it"
    if evidence.stop_wished:
        because = "its supervisor is dead, its end was asked for, none of its processes lives"
        return because, "cancelled", "killed_by_user", "stopped after its supervisor had died"
    if attempt is None:
        because = "its supervisor is dead; it had begun no attempt"
        return because, "failed", "never_started", "its supervisor died before the job was started"
    if attempt.run is None:
        because = f"its supervisor is dead; attempt {number} was begun, no process was recorded and none lives"
        said = "its supervisor died while it started the job; it is unknown whether the job began"
        return because, "failed", SUPERVISOR_LOST, said
    message = "its supervisor and its processes are gone; no exit was recorded"
    because = f"its supervisor is dead, none of its processes lives, attempt {number} has no exit"
    return because, "failed", SUPERVISOR_LOST, message


def _by_scheduler(
    scheduler_status: SchedulerStatus, state: State | None, evidence: Evidence
) -> tuple[str, str, str | None, str | None]:
    """Decide (because, state, reason, message) from a batch system's status, for a run whose supervisor has written no end."""
    job = evidence.submission.job if evidence.submission is not None else None
    engine = sanitize_line((job.scheduler if job is not None else None) or "the scheduler", 20)
    seen, detail = scheduler_status.state, scheduler_status.detail
    said = f"{engine} says {detail or seen}"
    written, reason, own = (state.state or "queued", state.reason, state.message) if state else ("queued", None, None)
    message = scheduler_status.message
    if seen == "pending" and written == "running" and _later(evidence, scheduler_status):
        return f"its supervisor wrote “running” after {engine}'s last word ({detail or seen})", written, None, None
    if seen == "pending":
        again = reason if written == "queued" else None
        words = "; ".join(each for each in (own if again or not message else None, message) if each)
        return f"{said}; its supervisor waits with it", "queued", again or scheduler_status.reason, words
    if seen == "held":
        because = f"{said}: it waits until somebody releases it"
        return because, "queued", scheduler_status.reason or "held", message
    if seen in ("running", "ending"):
        if written == "running":
            because = f"{message or said} and its supervisor wrote “running”{_beat(evidence)}"
            return because, written, None, message or own
        where = scheduler_status.node or "a worker"
        return f"{said}; its supervisor has not written yet", "running", None, f"starting on {where}"
    if seen in ("ended", "gone") and evidence.processes:
        word = said if seen == "ended" else f"{engine} no longer lists it"
        because = f"{word}; {evidence.processes} of the run's processes live on the machine that was asked"
        return because, "running", SUPERVISOR_LOST, LIVES_ON
    if seen == "ended":
        because = f"{said}; its supervisor wrote no end"
        ending = scheduler_status.reason or "ended_silently"
        if evidence.stop_wished:
            return because, "cancelled", "killed_by_user", message or "removed from the queue"
        if ending == "removed":  # by an administrator, a limit of the site, or a person who used no armada
            return because, "cancelled", ending, message or "removed from the queue, and not by armada"
        return because, "failed", ending, message
    if seen == "gone":
        because = (
            f"{engine} lists it neither in its queue nor by its id; the job's files do not change; no end was written"
        )
        if evidence.stop_wished:
            return because, "cancelled", "killed_by_user", "no longer in the queue"
        how = "how it ended" if evidence.attempt is not None else "that it ever began"
        return because, "failed", "gone", f"{engine} no longer lists the job, and no record shows {how}"
    problem = sanitize_line(scheduler_status.error or message or "no answer yet", 200)
    because = f"{engine} does not say ({problem}); its supervisor wrote “{sanitize_line(written, 20)}”"
    return because, written, None, problem


def _first_finding(observed: Observation) -> str:
    return observed.findings[0] if observed.findings else "its records on the host cannot be read"


def _later(evidence: Evidence, scheduler_status: SchedulerStatus) -> bool:
    """Whether the supervisor wrote after its batch system's last status.

    The worker's own clock counts only where an older agent says no `written_at`.
    """
    began = evidence.state.started_at if evidence.state is not None else None
    wrote_at = evidence.written_at if evidence.written_at is not None else began
    seen_at = scheduler_status.seen_at
    return began is not None and wrote_at is not None and seen_at is not None and wrote_at > seen_at


def _beat(evidence: Evidence | None) -> str:
    """Describe the newest heartbeat, for a run with a living supervisor."""
    beat = evidence.heartbeat if evidence is not None else None
    if beat is None or beat.phase is None:
        return ""
    where = f", step {beat.step}" if beat.step is not None else ""
    return f"; rank {beat.rank or 0} last said {sanitize_line(beat.phase, 20)}{where}"
