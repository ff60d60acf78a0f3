"""Curves that a scale shows badly: constants with the noise of rounding, and values that a logarithmic scale lacks."""

from __future__ import annotations

import math

import pytest
from textual.pilot import Pilot

from armada.tui.curves import NAN, Curve, Levels, smoothed
from armada.tui.scales import scale_of
from armada.tui.screens.run import RunScreen
from armada.tui.symbols import UNICODE
from armada.tui.widgets.chart import Chart
from armada.tui.widgets.chart_plane import Line
from tests.tui.conftest import World, drive, lacks, shows


@pytest.mark.parametrize("value", [0.001, 2e-5, -0.3, 1e300, 0.0])
@pytest.mark.parametrize("weight", [0.6, 0.9, 0.97])
def test_a_smoothed_constant_is_that_constant(value: float, weight: float) -> None:
    assert set(smoothed([value] * 1000, weight)) == {value}


def test_smoothing_neither_forgets_a_gap_nor_overflows() -> None:
    made = list(smoothed([1.0, NAN, 3.0], 0.5))
    assert made[0] == 1.0
    assert math.isnan(made[1])
    assert made[2] == pytest.approx((0.25 * 1.0 + 0.5 * 3.0) / 0.75)  # weighted by how far back it is
    assert all(map(math.isfinite, smoothed([1.7e308, -1.7e308, 1.7e308], 0.6)))


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("value", [0.001, 1.0, 5e9])
def test_values_that_differ_by_rounding_are_one_line_in_the_middle(value: float, *, log: bool) -> None:
    values = [value, value * (1 + 1e-15), value * (1 - 1e-14)]
    levels = Levels(math.log10(each) if log else each for each in values)
    chart, line = Chart(UNICODE), Line("lr", [1.0, 2.0, 3.0], levels)
    chart.lines, chart.logarithmic = (line,), log
    found = levels.extremes(0, 3)
    assert found is not None
    assert found[0] < found[1]
    low, high = chart._heights([found])  # noqa: SLF001
    assert (found[0] - low) / (high - low) == pytest.approx(0.5)
    assert chart._beside(line) == [""]  # noqa: SLF001
    assert set(scale_of("lr", values, log=log).shares) == {0.5}


def test_a_smoothed_learning_rate_has_no_spikes(world: World) -> None:
    world.run("demo-aaaaaa", step=300, total_steps=300)
    world.losses("demo-aaaaaa", [0.001] * 300, name="learning_rate")

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        await pilot.press("enter", "c", "s", "s", "s")
        seen = await shows(pilot, "smoothed 0.97", "raw 0.001")
        assert "0.001000" not in seen
        assert sum("⣿" in line or "⡇" in line for line in seen.splitlines()) <= 1

    drive(world.board(), use)


SOME = [0.5, -0.25, 0.0, 0.125, 4.0, -0.0625, 2.0]


def test_a_log_scale_says_how_many_points_it_cannot_show_and_what_was_measured(world: World) -> None:
    world.run("demo-aaaaaa", step=7, total_steps=7)
    world.losses("demo-aaaaaa", SOME)

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        await pilot.press("enter", "c")
        await shows(pilot, "2  lowest -0.25 · highest 4", "lowest    -0.25      step 2")
        await pilot.press("L")
        seen = await shows(pilot, "(log, 3 points not above 0 left out)", "not > 0   3×")
        assert "2  lowest -0.25 · highest 4" in seen
        chart_of(pilot).put_cross(2.0)
        await shows(pilot, "at step 2 -0.25 ")
        await pilot.press("L")
        await lacks(pilot, "left out", "not > 0")

    drive(world.board(), use)


def test_each_part_of_a_curve_on_a_log_scale_counts_its_own_points(world: World) -> None:
    world.run("demo-aaaaaa", step=7, total_steps=7)
    world.losses("demo-aaaaaa", SOME)

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        await pilot.press("enter", "c", "L")
        await shows(pilot, "3 points not above 0 left out")
        chart_of(pilot).look((4.0, 6.0))
        await shows(pilot, "zoomed: 0 shows all, 1 point not above 0 left out")
        chart_of(pilot).look((4.0, 5.0))
        await lacks(pilot, "left out)")

    drive(world.board(), use)


def test_a_chart_of_the_next_run_counts_nothing_of_the_former(world: World) -> None:
    world.run("demo-aaaaaa", step=7, total_steps=7)
    world.losses("demo-aaaaaa", [*SOME, NAN])

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        await pilot.press("enter", "c", "L")
        await shows(pilot, "3 points not above 0 left out", "points    8", "NaN       1×")
        view, chart = pilot.app.screen, chart_of(pilot)
        assert isinstance(view, RunScreen)
        assert view.turn_over(("gone-bbbbbb",))
        assert chart._notes(100) == ""  # noqa: SLF001
        view.action_tab("charts")
        await shows(pilot, "gone-bbbbbb")
        await lacks(pilot, "left out", "points    8", "NaN       1×")

    drive(world.board(), use)


def test_several_runs_on_a_log_scale_say_it_for_all_of_them(world: World) -> None:
    for run_id in ("one-aaaaaa", "two-bbbbbb"):
        world.run(run_id, step=7, total_steps=7)
        world.losses(run_id, SOME)

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "aaaaaa", "bbbbbb")
        await pilot.press("a", "c", "L")
        await shows(pilot, "(log, 6 points not above 0 left out)")

    drive(world.board(), use)


def test_a_curve_counts_its_new_points_too() -> None:
    curve = Curve((step, step, value) for step, value in enumerate(SOME))
    assert curve.not_positive == 3
    curve.extend([(8.0, 8.0, -1.0), (9.0, 9.0, None), (10.0, 10.0, 1.0)])
    assert curve.not_positive == 4
    assert Curve().not_positive == 0


def chart_of(pilot: Pilot[None]) -> Chart:
    view = pilot.app.screen
    assert isinstance(view, RunScreen)
    return view.wall.query(Chart).first()
