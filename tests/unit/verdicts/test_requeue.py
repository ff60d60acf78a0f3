"""Which attempts go back into the queue, and what is said of them."""

from __future__ import annotations

from typing import Any

import pytest
from armada_agent.supervisor.time_limit import TimeLimit, plan_stop
from armada_agent.verdicts.requeue import (
    TRAININGS,
    Attempt,
    advise,
    can_resume,
    count_fruitless,
    decide,
    span,
    would_fail_again,
)

from armada.config.tasks import registry

RESUMES: dict[str, Any] = {"run_id": "r-1", "task": "sft", "watch": None, "time_limit_s": 86400.0}
WATCH = {"checkpoints": {"pattern": "out/*", "quiet_s": 30}, "resume": ["--resume", "{checkpoint}"]}
CANNOT: dict[str, Any] = {"run_id": "r-1", "task": "command", "watch": {"checkpoints": None, "resume": []}}


def limited(number: int, before: int | None, step: int | None) -> Attempt:
    return Attempt(number, "time_limit", before, step)


def test_every_task_of_the_bundled_trainer_resumes_by_itself() -> None:
    assert TRAININGS == registry.TRAININGS
    assert all(can_resume({"task": task}) for task in TRAININGS)


@pytest.mark.parametrize(
    ("spec", "resumes"),
    [
        ({"task": "sft", "watch": None}, True),
        ({"task": "sft"}, True),
        ({"task": "script", "watch": WATCH}, True),
        ({"task": "command", "watch": WATCH}, True),
        ({"task": "command", "watch": {**WATCH, "resume": []}}, False),
        ({"task": "command", "watch": {**WATCH, "checkpoints": None}}, False),
        ({"task": "command", "watch": None}, False),
        ({"task": "merge", "watch": None}, False),
        ({"task": "prepare", "watch": None}, False),
    ],
)
def test_a_run_can_resume_only_if_its_next_attempt_is_told_of_a_checkpoint(spec: dict[str, Any], resumes: bool) -> None:
    assert can_resume(spec) is resumes


@pytest.mark.parametrize(
    ("task", "reason", "code", "again"),
    [
        ("sft", "bad_spec", 2, True),
        ("dpo", "resume_mismatch", 2, True),
        ("sft", "data_error", 2, False),  # the hub may answer later
        ("sft", "world_mismatch", 2, False),  # another node may have the GPUs
        ("sft", "oom", 1, False),
        ("sft", "bad_spec", 1, False),
        ("script", "bad_spec", 2, False),  # a word of its own
        ("merge", "bad_spec", 2, False),
    ],
)
def test_only_what_the_trainer_refused_would_fail_again(task: str, reason: str, code: int, again: bool) -> None:
    assert would_fail_again({"task": task}, reason, code) is again


def test_a_job_that_cannot_resume_fails_at_its_time_limit_at_once_and_says_what_to_do() -> None:
    decision = decide([limited(1, None, None)], {**CANNOT, "time_limit_s": 120.0}, 2)
    assert not decision.again
    assert decision.message == (
        "it reached its time limit of 2m; it cannot resume: raise `resources.time_limit`, or give the task a `resume` and a `checkpoint`"
    )


def test_an_attempt_with_a_newer_checkpoint_goes_back_and_says_where_it_stands() -> None:
    attempts = [limited(1, None, 600), limited(2, 600, 1200), limited(3, 1200, 2400)]
    decision = decide(attempts, RESUMES, 2)
    assert decision.again
    assert decision.message == "it reached its time limit of 24h; attempt 3, +1,200 steps: step 2,400"


def test_attempts_without_a_newer_checkpoint_go_back_until_there_were_too_many_in_a_row() -> None:
    attempts = [limited(1, None, 600), limited(2, 600, 600)]
    once = decide(attempts, RESUMES, 2)
    assert once.again
    assert "1 in a row, and the run fails at 2" in once.message
    twice = decide([*attempts, limited(3, 600, 600)], RESUMES, 2)
    assert not twice.again
    assert twice.message == (
        "it reached its time limit of 24h; 2 attempts in a row brought no newer checkpoint (the newest is of step 600)."
        " Raise `resources.time_limit`, or save checkpoints more often"
    )


def test_a_single_attempt_without_a_newer_checkpoint_may_be_one_too_many() -> None:
    assert not decide([limited(1, None, None)], RESUMES, 1).again


def test_a_newer_checkpoint_makes_the_count_begin_anew() -> None:
    attempts = [limited(1, None, None), limited(2, None, 5), limited(3, 5, 5)]
    assert count_fruitless(attempts) == 1
    assert decide(attempts, RESUMES, 2).again


@pytest.mark.parametrize(
    "between",
    [
        Attempt(2, "preempted", 5, 5),
        Attempt(2, "lost", is_known=False),
        Attempt(2, "time_limit", is_known=False),  # an older armada wrote its exit
    ],
)
def test_what_says_nothing_about_progress_is_neither_gain_nor_loss(between: Attempt) -> None:
    assert count_fruitless([limited(1, 5, 5), between, limited(3, 5, 5)]) == 2


def test_a_preempted_attempt_that_gained_makes_the_count_begin_anew() -> None:
    assert count_fruitless([limited(1, 5, 5), Attempt(2, "preempted", 5, 9), limited(3, 9, 9)]) == 1


def test_an_attempt_of_which_nobody_knows_how_far_it_got_goes_back() -> None:
    attempts = [limited(1, 5, 5), limited(2, 5, 5), Attempt(3, "time_limit", is_known=False)]
    assert decide(attempts, RESUMES, 2).again


@pytest.mark.parametrize("reason", ["preempted", "lost"])
def test_what_a_scheduler_takes_always_goes_back_and_says_where_it_stands(reason: str) -> None:
    attempts = [Attempt(number, reason, 60, 60) for number in range(1, 9)]
    decision = decide(attempts, RESUMES, 1)
    assert (decision.again, decision.message) == (True, "attempt 8, no newer checkpoint: the newest is of step 60")
    again = decide([Attempt(1, reason)], CANNOT, 1)
    assert (again.again, again.message) == (
        True,
        "attempt 1; it cannot resume, so the next one starts from the beginning",
    )


def test_a_first_checkpoint_of_step_0_is_a_gain() -> None:
    assert decide([limited(1, None, 0)], RESUMES, 1).message.endswith("attempt 1, first checkpoint: step 0")


def test_a_run_that_failed_at_its_limit_says_how_it_goes_on() -> None:
    assert advise(RESUMES, 2400) == "`armada resume r-1` continues from step 2,400"
    assert "save checkpoints more often" in advise(RESUMES, None)
    assert "the host's `time_limit`" in advise({"task": "merge"}, None)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(90.0, "90s"), (120.0, "2m"), (5400.0, "90m"), (86400.0, "24h"), (172800.0, "2d"), (0.5, "0.5s"), (90000, "25h")],
)
def test_a_limit_is_said_as_experiments_write_it(seconds: float, words: str) -> None:
    assert span(seconds) == words


@pytest.mark.parametrize(
    ("limit_s", "grace_s", "has_scheduler", "planned"),
    [
        (3600.0, 60.0, False, (3600.0, 60.0)),
        (3600.0, 60.0, True, (3510.0, 60.0)),
        (3600.0, 0.0, True, (3570.0, 0.0)),
        (60.0, 60.0, True, (30.0, 15.0)),  # no room for the grace: half of it is for the job
        (120.0, 300.0, True, (60.0, 30.0)),
    ],
)
def test_a_job_ends_before_its_scheduler_would_end_it(
    limit_s: float, grace_s: float, has_scheduler: bool, planned: tuple[float, float]
) -> None:
    assert plan_stop(limit_s, grace_s, has_scheduler) == planned


def test_the_clock_starts_with_the_job_and_counts_what_its_scheduler_counted() -> None:
    now = [1000.0]
    spec = {"stop_grace_s": 60.0, "time_limit_s": 3600.0, "scheduler": {"kind": "htcondor"}}
    limit = TimeLimit(spec, clock=lambda: now[0])
    now[0] += 1e6  # it waited
    assert not limit.is_reached
    limit.start(spent_s=10.0)
    now[0] += 3499.0
    assert not limit.is_reached
    now[0] += 1.0
    assert limit.is_reached


def test_a_wrong_age_of_the_job_takes_at_most_half_of_its_time() -> None:
    now = [0.0]
    limit = TimeLimit({"stop_grace_s": 0.0, "time_limit_s": 100.0}, clock=lambda: now[0])
    limit.start(spent_s=1e9)
    now[0] = 49.0
    assert not limit.is_reached
    now[0] = 50.0
    assert limit.is_reached


def test_a_run_without_a_time_limit_never_reaches_it() -> None:
    limit = TimeLimit({"stop_grace_s": 5.0}, clock=lambda: 1e12)
    limit.start()
    assert not limit.is_reached
