"""Durations: one notation in all of armada, with more or less of it. Numbers: as many digits as fit."""

from __future__ import annotations

import math

import pytest

from armada.units import brief_span, exact_span, memory_amount, rough_span, short_number, span


@pytest.mark.parametrize(
    ("seconds", "told", "brief", "rough"),
    [
        (-3, "0 s", "0 s", "0 s"),
        (41.9, "41 s", "41 s", "41 s"),
        (60, "1 m 00 s", "1 m", "1 m"),
        (343, "5 m 43 s", "5 m", "5 m"),
        (600, "10 m", "10 m", "10 m"),
        (3599, "59 m", "59 m", "59 m"),
        (11_100, "3 h 05 m", "3 h 05 m", "3 h"),
        (187_200, "2 d 4 h", "2 d 4 h", "2 d"),
    ],
)
def test_a_duration_has_one_notation_in_sentences_facts_and_columns(
    seconds: float, told: str, brief: str, rough: str
) -> None:
    assert (span(seconds), brief_span(seconds), rough_span(seconds)) == (told, brief, rough)


@pytest.mark.parametrize("seconds", [math.inf, -math.inf, math.nan])
def test_a_duration_that_is_not_finite_is_a_question_mark(seconds: float) -> None:
    assert [each(seconds) for each in (span, brief_span, rough_span, exact_span)] == ["?"] * 4


@pytest.mark.parametrize(
    ("seconds", "told"),
    [(0, "0"), (40, "40 s"), (90, "1 m 30 s"), (300, "5 m"), (5400, "1 h 30 m"), (7200, "2 h"), (172_800, "2 d")],
)
def test_a_round_duration_has_only_the_units_that_it_needs(seconds: float, told: str) -> None:
    assert exact_span(seconds) == told


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (0.0, "0"),
        (2.718281828, "2.718"),
        (0.0086125, "0.00861"),
        (-0.032149, "-0.0321"),
        (-12.3456, "-12.35"),
        (8.61e-5, "8.61e-5"),
        (-0.00012345, "-1.2e-4"),
        (1234567.0, "1.235e6"),
        (-1.5e-100, "-2e-100"),
        (float("-inf"), "-inf"),
    ],
)
def test_a_number_has_as_many_digits_as_fit_into_its_column(value: float, told: str) -> None:
    assert short_number(value, 7) == told
    assert len(told) <= 7


@pytest.mark.parametrize(
    ("mib", "said"),
    [(512, "512 MiB"), (24_576, "24 GiB"), (81_920, "80 GiB"), (71_885, "70.2 GiB"), (2**21, "2048 GiB")],
)
def test_memory_is_told_as_vendors_mean_it(mib: int, said: str) -> None:
    assert memory_amount(mib * 2**20) == said
