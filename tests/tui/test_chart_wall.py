"""A wall of charts: as many metrics as fit, at every size of the terminal."""

from __future__ import annotations

from math import ceil

import pytest
from textual.pilot import Pilot

from armada.tui import wall_layout
from armada.tui.chart_choices import WALL
from armada.tui.screens.run import RunScreen
from armada.tui.widgets.chart import Chart
from tests.tui.conftest import World, drive, shows, until


@pytest.mark.parametrize("width", [0, 1, 36, 71, 72, 80, 120, 160, 250, 500])
@pytest.mark.parametrize("height", [0, 1, 8, 15, 16, 20, 44, 66, 200])
def test_every_chart_of_a_wall_is_large_enough_to_be_read(width: int, height: int) -> None:
    least_wide, least_high = wall_layout.SMALLEST
    most = wall_layout.fitting(width, height)
    assert 1 <= most <= wall_layout.MOST
    for count in range(1, most + 1):
        columns, rows = wall_layout.arrange(count, width, height)
        assert columns == 1 or width // columns >= least_wide
        assert rows == 1 or height // rows >= least_high
        assert rows == ceil(count / columns), "no row is empty"


def with_metrics(world: World, count: int) -> None:
    world.run("demo-aaaaaa", step=40, total_steps=200)
    world.losses("demo-aaaaaa", [3.0 / (1 + step / 10) for step in range(40)])
    for number in range(count):
        world.losses("demo-aaaaaa", [float(number)] * 40, name=f"metric_{number:02}")


def charts(pilot: Pilot[None]) -> list[Chart]:
    """Return the charts of the Run screen that are visible."""
    view = pilot.app.screen
    assert isinstance(view, RunScreen)
    return [chart for chart in view.wall.query(Chart) if chart.region.area and chart.has_class("shown")]


def test_a_wall_shows_what_fits_and_turns_to_the_rest(world: World) -> None:
    with_metrics(world, 20)

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        await pilot.press("enter", "c", "v", "v", "v")
        await shows(pilot, "loss (1 of 22)", "metric_00 (2 of 22)", "metric_17 (19 of 22)", "metric_18 (20 of 22)")
        await until(pilot, lambda: len(charts(pilot)) == 20 and all(chart.has_points for chart in charts(pilot)))
        await pilot.press("m")
        await shows(pilot, "metric_19 (21 of 22)", "num_tokens (22 of 22)", "loss (1 of 22)", "metric_16 (18 of 22)")
        await pilot.press("M")
        seen = await shows(pilot, "metric_18 (20 of 22)")
        assert "(21 of 22)" not in seen
        await pilot.press("slash", *"metric_0", "enter")
        seen = await shows(pilot, "metric_00 (1 of 11 of 22)", "metric_10 (11 of 11 of 22)")
        assert "loss (" not in seen
        await pilot.press("v")
        await shows(pilot, "metric_00 (1 of 11 of 22)", "highest")
        assert len(charts(pilot)) == 1

    drive(world.board(), use, size=(160, 44))


def test_a_wall_has_the_charts_that_the_new_size_has_room_for(world: World) -> None:
    with_metrics(world, 20)

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        await pilot.press("enter", "c", "v", "v", "v")
        await shows(pilot, "loss (1 of 22)", "metric_02 (4 of 22)")
        assert len(charts(pilot)) == 4
        await pilot.resize_terminal(250, 70)
        await shows(pilot, "num_tokens (22 of 22)")
        await until(pilot, lambda: len(charts(pilot)) == 22 and all(chart.has_points for chart in charts(pilot)))
        widths = [chart.region.width for chart in charts(pilot)]
        assert max(widths) - min(widths) <= 1, "the last row has two charts of five, as wide as the others"
        for size in ((20, 5), (1, 1), (500, 200), (80, 24)):
            await pilot.resize_terminal(*size)
            await until(pilot, lambda: len(charts(pilot)) in (1, 4, 22, 0))
        await shows(pilot, "metric_02 (4 of 22)")

    drive(world.board(), use, size=(80, 24))


def test_a_crosshair_and_a_zoom_are_there_in_charts_that_are_added(world: World) -> None:
    with_metrics(world, 8)

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        await pilot.press("enter", "c")
        await shows(pilot, "loss (1 of 10)", "highest")
        await pilot.press("plus", "comma", "comma")
        await shows(pilot, "at step")
        await pilot.press("v", "v", "v")
        await until(pilot, lambda: len(charts(pilot)) == 10 and all(chart.has_points for chart in charts(pilot)))
        first, *others = charts(pilot)
        assert first.cross is not None
        assert {chart.cross for chart in others} == {first.cross}
        assert {chart.chosen for chart in others} == {first.chosen} != {None}

    drive(world.board(), use, size=(160, 44))


@pytest.mark.parametrize("against", ["step", "time", "tokens"])
def test_charts_of_metrics_with_other_steps_have_one_x_axis(world: World, against: str) -> None:
    world.run("demo-aaaaaa", step=60, total_steps=200)
    for name, count in (("loss", 40), ("early", 10), ("late", 20)):  # each begins where the one before ended
        world.losses("demo-aaaaaa", [float(value) for value in range(count)], name=name)

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        await pilot.press("enter", "c", *["v"] * 3, *["b"] * ["step", "time", "tokens"].index(against))
        await until(pilot, lambda: len(charts(pilot)) == 4 and all(chart.has_points for chart in charts(pilot)))
        await until(pilot, lambda: len({chart.view for chart in charts(pilot)}) == 1)
        assert len({chart.own for chart in charts(pilot)}) > 2
        lows, highs = zip(*(chart.own for chart in charts(pilot) if chart.own is not None), strict=True)
        assert charts(pilot)[0].view == (min(lows), max(highs))
        await pilot.press("v")
        await until(pilot, lambda: len(charts(pilot)) == 1 and charts(pilot)[0].view == charts(pilot)[0].own)

    drive(world.board(), use, size=(160, 44))


def test_the_crosshair_moves_though_the_first_chart_is_empty(world: World) -> None:
    world.run("demo-aaaaaa", step=40, total_steps=200)
    world.losses("demo-aaaaaa", [1.0, 2.0, 3.0])
    world.losses("demo-aaaaaa", [], name="none")

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        await pilot.press("enter", "c", "v")
        await until(pilot, lambda: len(charts(pilot)) == 2 and all(chart.has_points for chart in charts(pilot)))
        first, second = charts(pilot)
        first.show("empty", ())
        assert not first.has_points
        await pilot.press("comma")
        await until(pilot, lambda: second.cross is not None)

    drive(world.board(), use, size=(160, 44))


def test_a_wall_outlasts_a_restart_and_an_older_armada_shows_one_chart(world: World) -> None:
    with_metrics(world, 8)
    board = world.board()

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        await pilot.press("enter", "c", "v", "v", "v")
        await shows(pilot, "metric_07 (9 of 10)")
        await until(pilot, lambda: '"panels": 0' in (world.home.state / "dashboard" / "chosen.json").read_text())

    drive(board, use, size=(160, 44))

    async def again(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        await pilot.press("enter")
        await shows(pilot, "loss ")
        await pilot.pause()
        await pilot.press("c")
        await shows(pilot, "metric_07 (9 of 10)")
        await until(pilot, lambda: len(charts(pilot)) == 9 and all(chart.has_points for chart in charts(pilot)))
        view = pilot.app.screen
        assert isinstance(view, RunScreen)
        assert view.wall.choices.panels == WALL

    drive(world.board(), again, size=(140, 30))
