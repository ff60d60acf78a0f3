"""Values from hosts: what is held to be a count, a number, a date."""

from __future__ import annotations

import pytest

from armada.foundation.validation import finite, moment, whole


@pytest.mark.parametrize(
    ("value", "kept"),
    [(1, 1.0), (-2.5, -2.5), (10**400, None), (float("nan"), None), (float("-inf"), None), (False, None), (None, None)],
)
def test_a_number_is_finite_and_no_larger_than_a_float_can_hold(value: object, kept: float | None) -> None:
    assert finite(value) == kept


def test_a_number_may_be_held_to_less() -> None:
    assert finite(1e18, 1e18) == 1e18
    assert finite(2e18, 1e18) is None


@pytest.mark.parametrize("value", [-1, 1.0, True, "1", 1 << 60])
def test_what_is_no_count_is_none(value: object) -> None:
    assert whole(value) is None


@pytest.mark.parametrize("value", [-1, 10**400, float("nan"), 1e12, True])
def test_what_no_calendar_shows_is_no_moment(value: object) -> None:
    assert moment(value) is None
