"""What became of a run whose host has nothing of it, row by row of the table."""

from __future__ import annotations

import dataclasses

import pytest

from armada.verdicts.presence import There
from armada.verdicts.states import ENDED
from armada.verdicts.stopping import NotSeen, Outcome, judge

REMOVED = NotSeen("unknown", There.REMOVED, was_there=True, queued=False, is_shared=False)


@pytest.mark.parametrize(
    ("change", "outcome"),
    [
        ({}, Outcome.REMOVED),
        ({"is_shared": True}, Outcome.ELSEWHERE),
        ({"there": There.UNKNOWN}, Outcome.ELSEWHERE),
        ({"queued": True}, Outcome.IN_A_QUEUE),
        ({"queued": True, "is_shared": True}, Outcome.IN_A_QUEUE),
        ({"processes": 1}, Outcome.LIVES),
        ({"processes": 1, "was_there": False, "queued": True}, Outcome.LIVES),
        ({"processes": 1, "there": There.UNKNOWN}, Outcome.LIVES),
        ({"processes": 1, "there": There.AWAY}, Outcome.AWAY),
        ({"processes": 1, "state": "failed"}, Outcome.AS_IT_ENDED),
        ({"processes": None}, Outcome.UNTOLD),
        ({"processes": None, "is_shared": True}, Outcome.UNTOLD),
        ({"processes": None, "there": There.UNKNOWN}, Outcome.UNTOLD),
        ({"processes": None, "there": There.AWAY}, Outcome.AWAY),
        ({"processes": None, "queued": True}, Outcome.IN_A_QUEUE),
        ({"processes": None, "was_there": False}, Outcome.NEVER_THERE),
        ({"processes": None, "state": "failed"}, Outcome.AS_IT_ENDED),
        ({"was_there": False}, Outcome.NEVER_THERE),
        ({"was_there": False, "queued": True, "is_shared": True}, Outcome.NEVER_THERE),
        ({"was_there": False, "there": There.UNKNOWN}, Outcome.NEVER_THERE),
        ({"there": There.AWAY}, Outcome.AWAY),
        ({"there": There.AWAY, "was_there": False}, Outcome.AWAY),
        ({"there": There.HERE}, Outcome.HERE),
        ({"there": There.HERE, "was_there": False}, Outcome.HERE),
        ({"there": There.HERE, "processes": 1, "queued": True}, Outcome.HERE),
        *(({"state": state, "there": There.AWAY, "queued": True}, Outcome.AS_IT_ENDED) for state in sorted(ENDED)),
    ],
)
def test_each_row_has_its_outcome(change: dict[str, object], outcome: Outcome) -> None:
    assert judge(dataclasses.replace(REMOVED, **change)) is outcome  # type: ignore[arg-type]  # names of its own fields


@pytest.mark.parametrize(
    ("change", "outcome"),
    [
        ({}, Outcome.AS_IT_ENDED),
        ({"was_there": False}, Outcome.AS_IT_ENDED),
        ({"queued": True}, Outcome.IN_A_QUEUE),
        ({"processes": 2}, Outcome.LIVES),
        ({"processes": None}, Outcome.UNTOLD),
        ({"is_shared": True}, Outcome.ELSEWHERE),
        ({"there": There.AWAY}, Outcome.AWAY),
    ],
)
def test_an_end_that_is_only_guessed_rules_nothing_out(change: dict[str, object], outcome: Outcome) -> None:
    guessed = dataclasses.replace(REMOVED, state="failed", is_guess=True)
    assert judge(dataclasses.replace(guessed, **change)) is outcome  # type: ignore[arg-type]  # names of its own fields
