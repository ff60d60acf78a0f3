"""Whether a run may be handed over once more, and whether its secrets may go, row by row of the table."""

from __future__ import annotations

from typing import Any

import pytest
from armada_agent.verdicts import liveness
from armada_agent.verdicts.following import may_follow, may_forget_secrets, may_release_secrets

DEAD: dict[str, Any] = {
    "number": 2, "before": 1, "has_ended": False, "was_taken": True, "is_dead": True, "processes": 0,
}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "may"),
    [
        ({}, True),
        ({"processes": 1}, False),
        ({"is_dead": False}, False),
        ({"was_taken": False}, False),
        ({"was_taken": False, "is_dead": False}, False),
        ({"has_ended": True, "is_dead": False}, True),
        ({"has_ended": True, "processes": 1}, True),
        ({"number": 1, "before": 2, "has_ended": True}, False),
        ({"before": 2, "has_ended": True}, True),
    ],
)
def test_a_second_submission_begins_only_after_the_first(change: dict[str, Any], may: bool) -> None:
    assert may_follow(**{**DEAD, **change}) is may


@pytest.mark.parametrize("word", liveness.WORDS)
def test_secrets_go_with_an_end_and_with_nothing_less(word: str) -> None:
    assert may_forget_secrets(word, 0, is_listed=False, is_stopped=False) is (word == "ended")


@pytest.mark.parametrize("is_stopped", [False, True])
def test_secrets_stay_while_a_process_of_the_job_lives(*, is_stopped: bool) -> None:
    assert not may_forget_secrets("ended", 1, is_listed=False, is_stopped=is_stopped)


@pytest.mark.parametrize("is_stopped", [False, True])
def test_secrets_stay_while_the_ended_job_may_be_requeued(*, is_stopped: bool) -> None:
    assert may_forget_secrets("ended", 0, is_listed=True, is_stopped=is_stopped) is is_stopped


@pytest.mark.parametrize("has_ended", [False, True])
@pytest.mark.parametrize("may_live", [False, True])
@pytest.mark.parametrize("leaves", [False, True])
def test_a_release_takes_secrets_of_what_ended_and_where_nothing_is_lost_of_all_that_is_dead(
    *, has_ended: bool, may_live: bool, leaves: bool
) -> None:
    goes = {(True, False, False), (True, False, True), (False, False, True)}
    assert may_release_secrets(has_ended, may_live, leaves) is ((has_ended, may_live, leaves) in goes)
