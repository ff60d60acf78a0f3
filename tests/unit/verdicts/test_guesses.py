"""What follows from an end that is only guessed."""

from __future__ import annotations

import pytest

from armada.verdicts import guesses

DAY_S = 86_400.0


@pytest.mark.parametrize(
    ("state", "reason", "since", "waited_for"),
    [
        ("failed", "gone", -6.9 * DAY_S, True),
        ("failed", "gone", -7.0 * DAY_S, False),
        ("failed", "gone", -7.1 * DAY_S, False),
        ("failed", "gone", DAY_S, True),  # the clock was wrong when it was noted
        ("failed", "gone", None, False),
        ("failed", "exit_1", 0.0, False),
        ("failed", "never_started", 0.0, False),  # on a plain host: its supervisor is seen to be dead
        ("running", None, 0.0, False),
    ],
)
def test_better_evidence_is_waited_for_a_week(
    state: str, reason: str | None, since: float | None, waited_for: bool
) -> None:
    assert guesses.is_waited_for(state, reason, since, 0.0) is waited_for


@pytest.mark.parametrize(
    ("state", "reason", "seen", "scheduler_status", "stays"),
    [
        ("failed", "gone", (1, 4), "unknown", True),
        ("failed", "gone", (1, 4), "running", False),
        ("failed", "gone", (1, 4), "gone", False),  # the same verdict again
        ("failed", "gone", (1, 5), "unknown", False),  # its supervisor has written since
        ("failed", "gone", (1, 4), None, False),
        ("running", None, (1, 4), "unknown", False),
    ],
)
def test_silence_leaves_a_guess_as_it_is(
    state: str, reason: str | None, seen: tuple[int, int], scheduler_status: str | None, stays: bool
) -> None:
    assert guesses.stays(state, reason, known=(1, 4), seen=seen, scheduler_status=scheduler_status) is stays
