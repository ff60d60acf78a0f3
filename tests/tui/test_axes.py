"""The ticks of the y axis: the same number of rows between them, and each label in the row of its value."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from armada.tui import scales, ticks
from armada.tui.symbols import UNICODE
from armada.tui.widgets.braille import Window
from armada.tui.widgets.chart_axes import foot, y_axis
from armada.tui.widgets.parallel import Parallel
from armada.tui.widgets.plot import Drawn
from armada.tui.widgets.scatter import Scatter

UNITS = {"k": 1e3, "M": 1e6, "G": 1e9}


def value_of(label: str) -> float:
    return float(label.rstrip("kMG")) * UNITS.get(label[-1], 1.0)


@given(st.floats(-1e6, 1e6), st.floats(1e-2, 1e6), st.integers(3, 40))
@example(0.0, 100.0, 10)
@example(0.37, 0.56, 10)
@example(0.0, 10.0, 6)
def test_the_rows_between_the_ticks_of_a_chart_are_equal_and_labels_are_in_the_row_of_their_value(
    low: float, wide: float, rows: int
) -> None:
    window, marks = y_axis(Window(0.0, 1.0, low, low + wide), rows, log=False)
    assert ticks.is_even(list(marks))
    assert window.y0 <= low
    assert low + wide <= window.y1
    assert window.y1 <= low + wide + 0.2 * wide or rows < 6  # of so few rows, only the ends may be two different ones
    of_row = (window.y1 - window.y0) / (rows * 4 - 1) * 4
    places = sorted(marks)
    if len(places) > 2:
        steps = {round(value_of(marks[a]) - value_of(marks[b]), 9) for a, b in pairwise(places)}
        assert max(steps) - min(steps) <= 1e-3 * max(steps), marks  # the labels are rounded
    for row, label in marks.items():
        digits = len(label.rstrip("kMG").partition(".")[2])
        rounding = 0.5 * UNITS.get(label[-1], 1.0) / 10**digits
        here = (window.y1 - value_of(label)) / (window.y1 - window.y0) * (rows * 4 - 1) / 4
        assert row - 0.2 - rounding / of_row <= here <= row + 1 + rounding / of_row, (row, label, window)


@given(st.floats(-100.0, 100.0), st.floats(0.1, 100.0), st.integers(3, 40))
@example(0.0, 0.29, 20)
@example(1.02, 17.7, 6)
@example(3.377, 0.502, 4)
def test_the_ticks_are_at_multiples_of_their_distance(low: float, wide: float, rows: int) -> None:
    places = sorted(map(value_of, y_axis(Window(0.0, 1.0, low, low + wide), rows, log=False)[1].values()))
    if len(places) > 1:
        assert places[0] / (places[1] - places[0]) == pytest.approx(
            round(places[0] / (places[1] - places[0])), abs=0.01
        )


@pytest.mark.parametrize("height", range(6, 24))
def test_the_ticks_of_parallel_coordinates_are_at_multiples_of_their_distance(height: int) -> None:
    values = [0.1, 1.3, 2.5, 3.8, 5.0, 6.2, 7.4, 8.6]
    plot = Parallel(UNICODE)
    plot.show([scales.scale_of("loss", values, log=False)], [Drawn("a", 0)] * len(values), "")
    lines = ["".join(text for text, _ in line) for line in plot.cells(40, height)][1:]
    places = [float(each) for line in lines for each in line.split() if each.replace(".", "").isdecimal()][::-1]
    if len(places) > 1:
        assert places[0] % (places[1] - places[0]) == pytest.approx(0.0), lines


@pytest.mark.parametrize("rows", range(2, 41))
def test_a_chart_of_few_rows_has_two_ticks_at_least(rows: int) -> None:
    for low in (0.0, -0.3, 0.93):
        for wide in (0.03, 0.56, 7.0, 10.0, 97.0, 100.0, 1234.0, 1474.0):
            assert len(y_axis(Window(0.0, 1.0, low, low + wide), rows, log=False)[1]) >= 2, (rows, low, wide)


@pytest.mark.parametrize("log", [False, True])
def test_a_plot_of_one_row_has_no_axis(log: bool) -> None:
    window = Window(0.0, 1.0, 0.0, 97.0)
    assert y_axis(window, 1, log=log) == (window, {})


@given(st.floats(-8.0, 6.0), st.floats(0.1, 9.0), st.integers(2, 40))
@example(-0.22, 0.1, 12)
@example(-2.0, 0.28, 3)
def test_a_logarithmic_axis_has_two_ticks_at_least_in_the_rows_of_their_values(
    low: float, wide: float, rows: int
) -> None:
    window, marks = y_axis(Window(0.0, 1.0, low, low + wide), rows, log=True)
    assert len(marks) >= 2
    assert window.y0 <= low
    assert low + wide <= window.y1
    for row, label in marks.items():
        value = math.log10(value_of(label))
        here = (window.y1 - value) / (window.y1 - window.y0) * (rows * 4 - 1) / 4
        assert row - 0.3 <= here <= row + 1.1, (row, label, window)


@given(st.floats(0.0, 1e6), st.floats(1.0, 1e6), st.integers(1, 80), st.sampled_from(["step", "time", "USD", "tokens"]))
@example(0.0, 13.2, 12, "USD")
@example(54949.0, 5032.0, 22, "tokens")
def test_an_x_axis_has_two_ticks_at_least_or_none(low: float, wide: float, room: int, unit: str) -> None:
    drawn = foot((low, low + wide), unit, room)
    assert len(drawn) == room
    assert len([each for each in drawn.split("  ") if each.strip()]) != 1, drawn


@pytest.mark.parametrize("rows", range(19, 46))
def test_the_ticks_of_a_high_chart_are_one_two_or_five_apart(rows: int) -> None:
    for wide in (0.03, 0.31, 0.45, 0.56, 2.9, 7.0, 1234.0):
        places = sorted(map(value_of, y_axis(Window(0.0, 1.0, 1.42, 1.42 + wide), rows, log=False)[1].values()))
        step = places[1] - places[0]
        assert f"{step:.3e}"[:5] in ("1.000", "2.000", "5.000"), places


def test_a_logarithmic_chart_writes_its_decades_in_one_notation() -> None:
    assert set(y_axis(Window(0.0, 1.0, 2.9, 5.2), 20, log=True)[1].values()) >= {"1k", "10k", "100k"}
    assert set(y_axis(Window(0.0, 1.0, 0.9, 4.1), 20, log=True)[1].values()) >= {"10", "1000", "10000"}


def test_decades_are_even_and_within_a_decade_each_tick_is_at_its_place() -> None:
    marks = y_axis(Window(0.0, 1.0, -6.3, 2.2), 11, log=True)[1]
    assert ticks.is_even(list(marks))
    assert len(marks) > 1
    window = Window(0.0, 1.0, 0.0, 1.0)
    assert y_axis(window, 20, log=True) == (window, {19: "1", 13: "2", 6: "5", 0: "10"})


@pytest.mark.parametrize("height", range(9, 30))
def test_the_ticks_of_a_scatter_plot_are_in_the_rows_of_their_values(height: int) -> None:
    values = [0.0, 25.0, 50.0, 75.0, 100.0]
    axis = scales.scale_of("accuracy", values, log=False)
    plot = Scatter(UNICODE)
    plot.show(axis, axis, [Drawn(letter, 0) for letter in "abcde"], "")
    lines = ["".join(text for text, _ in line) for line in plot.cells(60, height)][1:-2]
    labels = {row: line[:7].strip() for row, line in enumerate(lines) if line[:7].strip()}
    assert ticks.is_even(list(labels))
    assert {"0", "50", "100"} & set(labels.values())
    signs = dict(zip(("0", "50", "100"), "ace", strict=True))
    for row, label in labels.items():
        assert signs.get(label, "") in lines[row][8:], (label, lines)


@given(
    st.floats(0.0, 1e6), st.floats(10.0, 1e6), st.integers(60, 240), st.sampled_from(["step", "time", "USD", "tokens"])
)
@example(1.0, 14_199.0, 102, "step")
def test_a_wide_x_axis_has_ticks_wherever_there_is_room_and_none_touch(
    low: float, wide: float, room: int, unit: str
) -> None:
    drawn = foot((low, low + wide), unit, room)
    labels = [each for each in drawn.split("  ") if each.strip()]
    assert len(drawn) == room
    assert len(labels) >= 2
    if unit in ("step", "USD") and room >= 100 and wide > 20:
        assert len(labels) >= 4, drawn


def test_fourteen_thousand_steps_have_a_tick_at_every_second_thousand() -> None:
    assert foot((1.0, 14_200.0), "step", 102).split() == ["2k", "4k", "6k", "8k", "10k", "12k", "14k"]


def test_a_wide_scatter_plot_has_more_ticks_than_a_narrow_one() -> None:
    costs = scales.scale_of("cost", [3.0, 170.0, 90.0], log=False, write=lambda value: f"${value:.2f}")
    losses = scales.scale_of("loss", [0.6, 3.4, 1.0], log=False)
    plot = Scatter(UNICODE)
    plot.show(costs, losses, [Drawn(letter, 0) for letter in "abc"], "")

    def labels(width: int, height: int) -> tuple[int, int]:
        lines = ["".join(text for text, _ in line) for line in plot.cells(width, height)]
        return len(lines[-2].split()), sum(bool(line[:7].strip()) for line in lines[1:-2])

    assert labels(160, 40) == (8, 5)
    assert labels(60, 12)[0] == 3


def test_a_wide_logarithmic_axis_of_two_decades_has_ticks_within_them() -> None:
    rates = scales.scale_of("lr", [3e-5, 3e-3])
    plot = Scatter(UNICODE)
    plot.show(rates, rates, [Drawn(letter, 0) for letter in "ab"], "")
    assert "".join(text for text, _ in plot.cells(120, 30)[-2]).split() == [
        "5e-05",
        "0.0001",
        "0.0002",
        "0.0005",
        "0.001",
        "0.002",
    ]


@pytest.mark.parametrize(
    ("values", "labels"),
    [
        ([4000, 20_000], ["4k", "20k"]),
        ([500, 20_000], ["500", "20000"]),
        ([0, 4096, 20_480], ["0", "4.096k", "20.48k"]),
        ([1, 2000, 5_000_000], ["1", "2k", "5M"]),
        ([2000, 4000], ["2000", "4000"]),
        ([0.001, 0.01], ["0.001", "0.01"]),
        ([1e-5, 20_000], ["1e-05", "20000"]),
    ],
)
def test_the_ticks_at_the_values_of_an_axis_have_one_notation(values: list[float], labels: list[str]) -> None:
    assert [label for _, label in scales.scale_of("steps", values, exact=True).marks] == labels


def test_the_ticks_of_a_logarithmic_axis_have_one_notation() -> None:
    marks = scales.scale_of("steps", [4000 + 137 * each for each in range(300)]).marks
    assert [label for _, label in marks] == ["5k", "10k", "20k"]
