"""Pauses between tries: doubled up to a limit, spread by a roll of the dice."""

from __future__ import annotations

import pytest

from armada.foundation.backoff import Backoff, jitter_roll


def test_each_pause_is_twice_the_one_before_up_to_the_longest() -> None:
    backoff = Backoff(0.2, 5.0)
    assert [backoff.pause_s(failures) for failures in range(1, 8)] == [0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]


def test_a_roll_of_the_dice_spreads_the_pauses() -> None:
    backoff = Backoff(10.0, 100.0, jitter=(0.5, 1.5))
    assert [backoff.pause_s(2, roll) for roll in (0.0, 0.5, 1.0)] == [10.0, 20.0, 30.0]


@pytest.mark.parametrize("failures", [1_000, 10**9])
def test_no_number_of_failures_is_too_many(failures: int) -> None:
    assert Backoff(15.0, 900.0).pause_s(failures) == 900.0


def test_a_roll_lies_between_0_and_1() -> None:
    assert all(0.0 <= jitter_roll() < 1.0 for _ in range(100))
