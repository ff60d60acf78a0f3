"""The table in armada.verdicts.state, case by case."""

from __future__ import annotations

from typing import Any

import pytest

from armada.verdicts import state
from armada.verdicts.states import Verdict
from tests.answers import observation

JOB = {"number": 1, "claimed": True, "job": {"submission": 1}}
RUNNING = {"state": "running", "attempt": 1, "seq": 4}
ATTEMPT = {"number": 1, "run": {"attempt": 1}, "exit": None}


def decide(seen: dict[str, Any], stall_after_s: float | None = None) -> Verdict:
    return state.decide(observation(seen), stall_after_s)


def observed(**evidence: Any) -> dict[str, Any]:
    return {"run_id": "x", "exists": True, "evidence": evidence}


CASES = [
    (
        "an end that the supervisor wrote",
        observed(state={"state": "succeeded", "attempt": 1, "seq": 9}, supervisor="dead"),
        ("succeeded", None),
    ),
    (
        "an exit whose state.json was never rewritten",
        observed(
            submission=JOB,
            state=RUNNING,
            attempt={**ATTEMPT, "exit": {"state": "failed", "reason": "exit_3"}},
            supervisor="dead",
        ),
        ("failed", "exit_3"),
    ),
    (
        "its folder is gone and its processes live",
        {"run_id": "x", "exists": False, "evidence": None, "remains": {"processes": 2, "is_shared": False}},
        ("running", "folder_removed"),
    ),
    (
        "its folder is gone and so are its processes",
        {"run_id": "x", "exists": False, "evidence": None, "remains": {"processes": 0, "is_shared": True}},
        ("unknown", "not_on_host"),
    ),
    (
        "its folder is there, whatever else is said of its processes",
        {**observed(submission=JOB, state=RUNNING, supervisor="alive"), "remains": {"processes": 2}},
        ("running", None),
    ),
    ("records that cannot be read", {"run_id": "x", "exists": True, "evidence": None}, ("unknown", "unreadable")),
    ("nothing of it on the host", {"run_id": "x", "exists": False, "evidence": None}, ("unknown", "not_on_host")),
    ("a folder, but no submission", observed(submission=None), ("preparing", None)),
    (
        "a submission of which no claim was written",
        observed(submission={"number": 1, "claimed": False, "job": None}),
        ("preparing", None),
    ),
    (
        "a claim that no supervisor took",
        observed(submission={**JOB, "job": None}, supervisor="none"),
        ("submitted", None),
    ),
    (
        "a claim whose job's id was lost with an answer, and whose supervisor wrote",
        observed(submission={**JOB, "job": None}, state=RUNNING, attempt=ATTEMPT, supervisor="none"),
        ("running", None),
    ),
    (
        "a claim whose job's id was lost, and a state of which only the numbers can be read",
        observed(submission={**JOB, "job": None}, state={"attempt": 1, "seq": 4}, supervisor="none"),
        ("submitted", None),
    ),
    (
        "a job that was started, and no state that can be read",
        observed(submission=JOB, attempt=ATTEMPT, supervisor="alive"),
        ("running", None),
    ),
    (
        "a supervisor that waits for GPUs",
        observed(submission=JOB, state={"state": "queued", "seq": 1}, supervisor="alive"),
        ("queued", None),
    ),
    (
        "a supervisor that lives",
        observed(submission=JOB, state=RUNNING, attempt=ATTEMPT, supervisor="alive"),
        ("running", None),
    ),
    (
        "a supervisor whose life cannot be seen from here",
        observed(submission=JOB, state=RUNNING, attempt=ATTEMPT, supervisor="unknown"),
        ("running", None),
    ),
    (
        "a reboot",
        observed(submission=JOB, state=RUNNING, attempt=ATTEMPT, supervisor="dead", rebooted=True, processes=0),
        ("failed", "host_rebooted"),
    ),
    (
        "another name of the machine, or a reboot, and processes that live all the same",
        observed(submission=JOB, state=RUNNING, attempt=ATTEMPT, supervisor="dead", rebooted=True, processes=1),
        ("running", "supervisor_lost"),
    ),
    (
        "a killed supervisor whose job lives",
        observed(submission=JOB, state=RUNNING, attempt=ATTEMPT, supervisor="dead", processes=3),
        ("running", "supervisor_lost"),
    ),
    (
        "a supervisor killed before the job's start",
        observed(submission=JOB, state={"state": "queued", "seq": 1}, attempt=None, supervisor="dead"),
        ("failed", "never_started"),
    ),
    (
        "a supervisor killed in the very moment it started the job",
        observed(
            submission=JOB,
            state={"state": "queued", "seq": 1},
            attempt={"number": 1, "run": None, "exit": None},
            supervisor="dead",
        ),
        ("failed", "supervisor_lost"),
    ),
    (
        "a supervisor killed, and the rest of its run ended by `stop`",
        observed(submission=JOB, state=RUNNING, attempt=ATTEMPT, supervisor="dead", processes=0, stop_wished=True),
        ("cancelled", "killed_by_user"),
    ),
    (
        "a supervisor killed with its job",
        observed(submission=JOB, state=RUNNING, attempt=ATTEMPT, supervisor="dead", processes=0),
        ("failed", "supervisor_lost"),
    ),
]

BATCH = {"number": 1, "claimed": True, "job": {"submission": 1, "scheduler": "slurm", "job_id": "7"}}
QUEUED = {
    "state": "queued",
    "reason": "preempted",
    "message": "the scheduler took its node away",
    "attempt": 1,
    "seq": 9,
}
ENDED_SILENTLY = {"state": "ended", "detail": "FAILED", "reason": "ended_silently", "message": "no python3"}


def batch(scheduler_status: dict[str, Any], **evidence: Any) -> dict[str, Any]:
    return observed(submission=BATCH, supervisor="unknown", scheduler=scheduler_status, **evidence)


CASES += [
    ("a job that waits", batch({"state": "pending", "message": "other jobs come first"}), ("queued", None)),
    ("a preempted job that waits again", batch({"state": "pending"}, state=QUEUED), ("queued", "preempted")),
    (
        "a job that has begun since its scheduler was last asked",
        batch({"state": "pending", "seen_at": 10.0}, state={**RUNNING, "started_at": 11.0}),
        ("running", None),
    ),
    (
        "a job taken back without a warning, waiting again",
        batch({"state": "pending", "seen_at": 12.0}, state={**RUNNING, "started_at": 11.0}),
        ("queued", None),
    ),
    (
        "a job taken back from a worker whose clock is an hour ahead",
        batch({"state": "pending", "seen_at": 12.0}, state={**RUNNING, "started_at": 3611.0}, written_at=11.0),
        ("queued", None),
    ),
    (
        "a job that has begun, since the scheduler was last asked, on a worker whose clock is an hour behind",
        batch({"state": "pending", "seen_at": 7200.0}, state={**RUNNING, "started_at": 3601.0}, written_at=7201.0),
        ("running", None),
    ),
    (
        "a job that began at the instant at which its scheduler was asked",
        batch({"state": "pending", "seen_at": 11.0}, state={**RUNNING, "started_at": 11.0}),
        ("queued", None),
    ),
    (
        "a job of which its supervisor did not write when it began",
        batch({"state": "pending", "seen_at": 10.0}, state=RUNNING, written_at=11.0),
        ("queued", None),
    ),
    (
        "a job of which nobody knows when its scheduler was asked",
        batch({"state": "pending"}, state={**RUNNING, "started_at": 11.0}),
        ("queued", None),
    ),
    (
        "a job whose node failed, waiting again",
        batch({"state": "pending", "reason": "node_failure", "seen_at": 12.0}, state={**RUNNING, "started_at": 11.0}),
        ("queued", "node_failure"),
    ),
    ("a held job", batch({"state": "held", "message": "held by hand"}), ("queued", "held")),
    ("a job held for its time", batch({"state": "held", "reason": "time_limit"}), ("queued", "time_limit")),
    ("a job whose supervisor has yet to write", batch({"state": "running", "node": "n1"}), ("running", None)),
    ("a requeued job that runs again", batch({"state": "running"}, state=QUEUED), ("running", None)),
    ("a job that runs", batch({"state": "running"}, state=RUNNING, attempt=ATTEMPT), ("running", None)),
    (
        "a requeued attempt's exit is not the run's",
        batch(
            {"state": "pending"},
            state=QUEUED,
            attempt={**ATTEMPT, "exit": {"state": "requeued", "reason": "preempted"}},
        ),
        ("queued", "preempted"),
    ),
    (
        "a job removed by hand",
        batch({"state": "ended", "reason": "removed"}, state=RUNNING),
        ("cancelled", "removed"),
    ),
    (
        "a job removed by a stop",
        batch({"state": "ended", "reason": "removed"}, state=RUNNING, stop_wished=True),
        ("cancelled", "killed_by_user"),
    ),
    ("a job out of time", batch({"state": "ended", "reason": "time_limit"}, state=RUNNING), ("failed", "time_limit")),
    ("a job whose node failed", batch({"state": "ended", "reason": "node_failure"}), ("failed", "node_failure")),
    ("a job that ended without a word", batch(ENDED_SILENTLY, state=RUNNING), ("failed", "ended_silently")),
    (
        "a stop that the supervisor did not live to confirm",
        batch(ENDED_SILENTLY, stop_wished=True),
        ("cancelled", "killed_by_user"),
    ),
    ("a job that nobody knows any more", batch({"state": "gone"}, attempt=ATTEMPT, state=RUNNING), ("failed", "gone")),
    (
        "a job that nobody knows any more, and whose end was asked for",
        batch({"state": "gone"}, attempt=ATTEMPT, state=RUNNING, stop_wished=True),
        ("cancelled", "killed_by_user"),
    ),
    (
        "a job that nobody knows any more, whose end was asked for, and that lives where its host was asked",
        batch({"state": "gone"}, attempt=ATTEMPT, state=RUNNING, stop_wished=True, processes=1),
        ("running", "supervisor_lost"),
    ),
    (
        "a job that nobody knows any more and that lives where its host was asked",
        batch({"state": "gone"}, attempt=ATTEMPT, state=RUNNING, processes=2),
        ("running", "supervisor_lost"),
    ),
    (
        "a job that ended without a word, and processes of it where its host was asked",
        batch(ENDED_SILENTLY, attempt=ATTEMPT, state=RUNNING, processes=2),
        ("running", "supervisor_lost"),
    ),
    (
        "a job that ended, though it was seen before it began",
        batch({"state": "ended", "reason": "time_limit", "seen_at": 10.0}, state={**RUNNING, "started_at": 11.0}),
        ("failed", "time_limit"),
    ),
    (
        "a job put back into the queue after it was last seen there",
        batch({"state": "pending", "seen_at": 10.0}, state={**QUEUED, "started_at": 11.0}),
        ("queued", "preempted"),
    ),
    ("a job forgotten before it began", batch({"state": "gone"}), ("failed", "gone")),
    (
        "a scheduler that does not answer, and processes where its host was asked",
        batch({"state": "unknown", "error": "timed out"}, state=RUNNING, processes=2),
        ("running", None),
    ),
    (
        "a scheduler that does not answer",
        batch({"state": "unknown", "error": "timed out"}, state=RUNNING),
        ("running", None),
    ),
    ("one that never answered", batch({"state": "unknown", "error": "timed out"}), ("queued", None)),
    (
        "a written end, whatever the scheduler says",
        batch({"state": "running"}, state={"state": "succeeded", "attempt": 1, "seq": 9}),
        ("succeeded", None),
    ),
]


@pytest.mark.parametrize(("seen", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_evidence_decides_the_state(seen: dict[str, Any], expected: tuple[str, str | None]) -> None:
    verdict = decide(seen)
    assert (verdict.state, verdict.reason) == expected


KILLED_EXIT = {"state": "cancelled", "reason": "killed_by_user"}
KILLED = {"number": 1, "run": None, "exit": KILLED_EXIT}
STOPPED = {"state": "cancelled", "reason": "killed_by_user", "attempt": 1, "seq": 2, "submission": 1}


@pytest.mark.parametrize(
    ("attempt", "written", "state_of"),
    [
        (KILLED, STOPPED, "queued"),
        (KILLED, {**STOPPED, "attempt": 2}, "queued"),
        ({**KILLED, "number": 2}, STOPPED, "cancelled"),
        (KILLED, {**STOPPED, "submission": 2}, "cancelled"),
        (KILLED, None, "cancelled"),
        ({**KILLED, "run": {"attempt": 1, "submission": 1}}, None, "queued"),
        ({**KILLED, "run": {"attempt": 1, "submission": 2}}, STOPPED, "cancelled"),
        ({**KILLED, "exit": {**KILLED_EXIT, "submission": 1}}, None, "queued"),
        ({**KILLED, "exit": {**KILLED_EXIT, "submission": 2}}, STOPPED, "cancelled"),
        ({**KILLED, "number": 2, "exit": {**KILLED_EXIT, "submission": 1}}, STOPPED, "queued"),
        ({**KILLED, "run": {"submission": 2}, "exit": {**KILLED_EXIT, "submission": 1}}, STOPPED, "queued"),
        ({**KILLED, "run": {"submission": 2}, "exit": {**KILLED_EXIT, "submission": 2}}, STOPPED, "cancelled"),
    ],
)
def test_the_end_of_an_attempt_whose_record_is_missing_is_not_the_end_of_a_later_submission(
    attempt: dict[str, Any], written: dict[str, Any] | None, state_of: str
) -> None:
    resumed = {**BATCH, "number": 2, "job": {"submission": 2, "scheduler": "htcondor"}}
    waiting = {"state": "pending", "detail": "submitted"}
    told = observed(submission=resumed, supervisor="alive", scheduler=waiting, attempt=attempt, state=written)
    assert decide(told).state == state_of


AT_LIMIT = {
    **QUEUED,
    "reason": "time_limit",
    "message": "it reached its time limit of 24h; attempt 3, +1,200 steps: step 2,400",
}


@pytest.mark.parametrize(
    ("waits", "words"),
    [
        (None, AT_LIMIT["message"]),
        ("other jobs come first", f"{AT_LIMIT['message']}; other jobs come first"),
    ],
)
def test_a_run_that_was_put_back_says_where_it_stands_and_what_it_waits_for(waits: str | None, words: str) -> None:
    verdict = decide(batch({"state": "pending", "message": waits}, state=AT_LIMIT))
    assert (verdict.state, verdict.reason, verdict.message) == ("queued", "time_limit", words)


def test_a_run_that_waits_for_the_first_time_says_what_it_waits_for() -> None:
    waiting = {"state": "queued", "reason": None, "message": None, "seq": 1}
    verdict = decide(batch({"state": "pending", "message": "other jobs come first"}, state=waiting))
    assert verdict.message == "other jobs come first"


def test_a_run_of_which_its_scheduler_gives_no_reason_says_what_its_supervisor_wrote() -> None:
    waiting = {"state": "queued", "reason": None, "message": "waits for its node", "seq": 1}
    assert decide(batch({"state": "pending"}, state=waiting)).message == "waits for its node"


@pytest.mark.parametrize(
    ("attempt", "words"),
    [(ATTEMPT, "no exit was recorded"), ({**ATTEMPT, "run": None}, "it is unknown whether the job began")],
)
def test_a_killed_supervisor_says_whether_its_job_is_known_to_have_begun(attempt: dict[str, Any], words: str) -> None:
    verdict = decide(observed(submission=JOB, state=RUNNING, attempt=attempt, supervisor="dead", processes=0))
    assert words in str(verdict.message)


@pytest.mark.parametrize(
    ("attempt", "words"), [(ATTEMPT, "no record shows how it ended"), (None, "no record shows that it ever began")]
)
def test_a_job_that_nobody_knows_any_more_says_what_is_not_known_of_it(
    attempt: dict[str, Any] | None, words: str
) -> None:
    assert words in str(decide(batch({"state": "gone"}, attempt=attempt)).message)


@pytest.mark.parametrize(
    ("supervisor", "words"),
    [("alive", "its supervisor lives and"), ("unknown", "it is unknown whether its supervisor is alive")],
)
def test_why_says_whether_a_supervisor_was_seen_to_live(supervisor: str, words: str) -> None:
    assert words in str(decide(observed(submission=JOB, state=RUNNING, attempt=ATTEMPT, supervisor=supervisor)).because)


def test_a_job_whose_end_is_being_completed_is_not_said_to_run_on() -> None:
    found = decide(observed(submission=JOB, state=RUNNING, attempt=ATTEMPT, supervisor="unknown", lacks_end=True))
    assert (found.state, found.reason, found.message) == ("running", None, "its job ended; its end is being completed")
    assert "its supervisor died before it wrote that" in str(found.because)


def test_an_end_is_believed_even_after_a_reboot() -> None:
    state = {"state": "succeeded", "attempt": 1, "seq": 9}
    assert decide(observed(submission=JOB, state=state, supervisor="dead", rebooted=True)).state == "succeeded"


@pytest.mark.parametrize(
    "garbage",
    [
        {},
        {"evidence": None},
        {"exists": True},
        observed(state={"state": "party", "seq": "9"}, submission=JOB, supervisor="alive"),
        observed(submission={**JOB, "job": ["x"]}, scheduler={"state": "party"}, state={"state": "dance"}),
    ],
)
def test_garbage_from_a_host_is_unknown_or_earlier_never_an_end(garbage: dict[str, Any]) -> None:
    assert decide(garbage).state in ("unknown", "preparing")


def test_words_of_a_host_come_out_inert() -> None:
    verdict = decide(
        observed(state={"state": "failed", "reason": "\x1b]52;c;x\x07", "message": "a\u202eb\nc", "seq": 1})
    )
    assert "\x1b" not in (verdict.reason or "")
    assert verdict.message == "a�b c"


QUIET = observed(
    submission=JOB,
    state=RUNNING,
    attempt=ATTEMPT,
    supervisor="alive",
    heartbeat={"rank": 3, "phase": "training", "step": 1200},
    quiet_s=2000.0,
)


@pytest.mark.parametrize(
    ("seen", "limit", "reason"),
    [
        (QUIET, 1800.0, "stalled"),
        (QUIET, QUIET["evidence"]["quiet_s"], "stalled"),
        (QUIET, 2400.0, None),
        (QUIET, None, None),
        (observed(**{**QUIET["evidence"], "quiet_s": None}), 1800.0, None),
        (observed(**{**QUIET["evidence"], "quiet_s": "2000"}), 1800.0, None),
        (observed(**{**QUIET["evidence"], "quiet_s": float("inf")}), 1800.0, None),
        (observed(**{**QUIET["evidence"], "supervisor": "dead", "processes": 2}), 1800.0, "supervisor_lost"),
        (observed(**{**QUIET["evidence"], "state": {"state": "queued"}}), 1800.0, None),
    ],
)
def test_a_job_that_does_not_get_on_is_stalled_after_its_time(
    seen: dict[str, Any], limit: float | None, reason: str | None
) -> None:
    assert decide(seen, limit).reason == reason


def test_a_scheduler_that_signs_of_life_contradict_is_quoted_with_them() -> None:
    words = "Slurm says “CANCELLED”, but its job wrote 4 s ago"
    verdict = decide(batch({"state": "running", "detail": "CANCELLED", "message": words}, state=RUNNING))
    assert (verdict.state, verdict.message) == ("running", words)
    assert (verdict.because or "").startswith(words)


def test_a_stalled_job_says_since_when_and_what_it_last_did() -> None:
    verdict = decide(QUIET, 1800.0)
    assert verdict.message == "no progress for 33 m; rank 3 last said training, step 1200"
    assert (verdict.because or "").count("last said") == 1


def test_processes_that_are_stopped_are_part_of_the_evidence_and_change_no_state() -> None:
    seen = observed(submission=JOB, state=RUNNING, attempt=ATTEMPT, supervisor="alive", stopped=[41, 42])
    verdict = decide(seen)
    assert (verdict.state, verdict.reason) == ("running", None)
    assert verdict.because is not None
    assert verdict.because.endswith("; SIGSTOP has stopped 2 of its processes")
    assert str(verdict.message).endswith("of its processes: kill -CONT 41 42 on its host continues them")


@pytest.mark.parametrize(("state", "words"), [("ended", "slurm says ended"), ("gone", "slurm no longer lists it")])
def test_processes_that_outlive_their_job_are_set_beside_what_its_scheduler_says(state: str, words: str) -> None:
    submission = {"number": 1, "claimed": True, "job": {"submission": 1, "scheduler": "slurm"}}
    verdict = decide(observed(submission=submission, supervisor="dead", scheduler={"state": state}, processes=2))
    assert verdict.because == f"{words}; 2 of the run's processes live on the machine that was asked"


def test_processes_that_are_stopped_say_nothing_of_a_run_that_waits() -> None:
    waits = {"state": "queued", "attempt": 1, "seq": 4, "message": "waits for 2 GPUs"}
    seen = observed(submission=JOB, state=waits, supervisor="alive")
    stopped = observed(submission=JOB, state=waits, supervisor="alive", stopped=[41])
    assert decide(stopped) == decide(seen)


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ({**RUNNING, "reason": "slow", "message": "stopping"}, ("running", "slow", "stopping")),
        (None, ("submitted", None, None)),
    ],
)
def test_a_living_supervisors_own_words_are_shown(
    written: dict[str, Any] | None, shown: tuple[str, str | None, str | None]
) -> None:
    verdict = decide(observed(submission=JOB, state=written, supervisor="alive"))
    assert (verdict.state, verdict.reason, verdict.message) == shown


@pytest.mark.parametrize(("job", "named"), [({"scheduler": "slurm"}, "slurm says"), ({}, "the scheduler says")])
def test_who_says_it_is_named(job: dict[str, Any], named: str) -> None:
    submission = {"number": 1, "claimed": True, "job": {"submission": 1, **job}}
    told = observed(submission=submission, supervisor="unknown", scheduler={"state": "pending"})
    assert (decide(told).because or "").startswith(named)
