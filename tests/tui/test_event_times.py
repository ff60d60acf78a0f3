"""Tests for the times of events: short where the day is known, and what a host says that is no time."""

from __future__ import annotations

import math
import time

import pytest

from armada.tui.screens.run_text import stamp, when

NOON = time.mktime((2026, 11, 25, 12, 0, 0, 0, 0, -1))
DAY_S = 86_400.0


@pytest.mark.parametrize(
    ("age", "words"),
    [
        (0.0, "12:00:00"),
        (11.5 * 3600, "00:30:00"),
        (12.5 * 3600, "Tue 23:30:00"),
        (5 * DAY_S, "Fri 12:00:00"),
        (6 * DAY_S, "19 Nov 12:00"),
        (300 * DAY_S, "2026-01-29"),
        (-3600.0, "13:00:00"),
        (-DAY_S, "2026-11-26"),
    ],
)
def test_time_of_event_says_the_day_only_where_it_is_another_one(age: float, words: str) -> None:
    assert when(NOON - age, NOON) == words
    assert len(words) <= 12


def test_whole_event_has_the_date() -> None:
    assert stamp(NOON) == "2026-11-25 12:00:00"


@pytest.mark.parametrize("moment", [None, "now", {}, math.nan, math.inf, -math.inf, 1e300, 10**400])
def test_what_is_no_time_is_a_dash(moment: object) -> None:
    assert (when(moment, NOON), stamp(moment)) == ("—", "—")
