"""Compare, Curves: several metrics of several runs in charts beside each other, with one crosshair and one x axis."""

from __future__ import annotations

import pytest
from textual.pilot import Pilot

from armada.store import metrics
from armada.tui.chart_choices import WALL
from armada.tui.screens.compare import CompareScreen
from armada.tui.widgets.chart import Chart
from armada.tui.widgets.chart_plane import Looked
from armada.tui.widgets.curve_wall import MOST
from tests.tui.conftest import World, drive, shows, until

NAMES = ("loss", "eval_loss", "lr", "grad_norm", "tokens_per_s", "gpu_memory", "reward")
SHORT = "eval_loss"
RUNS = ("one-aaaaaa", "two-bbbbbb", "six-cccccc")


def record(world: World, run_id: str, lines: list[dict[str, object]]) -> None:
    assert metrics.record_metrics(world.database, run_id, lines, offset=0, next_offset=len(lines))


def fill(world: World, names: tuple[str, ...] = NAMES, lacking: str = "") -> None:
    """Three runs with these metrics; the first one has another, and one ends before the others do."""
    for number, run_id in enumerate(RUNS):
        world.run(run_id, step=100, total_steps=100)
        lines: list[dict[str, object]] = []
        for step in range(1, 100):
            of_step = {
                name: place + number + 1.0 / step for place, name in enumerate(names) if name != SHORT or step < 60
            }
            more = {lacking: 0.5} if lacking and not number else {}
            lines.append({"kind": "train", "step": step, "time": 1000.0 + step, **of_step, **more})
        record(world, run_id, lines)


async def opened(pilot: Pilot[None]) -> CompareScreen:
    await shows(pilot, *RUNS)
    await pilot.press("a", "c")
    await shows(pilot, "against step")
    view = pilot.app.screen
    assert isinstance(view, CompareScreen)
    await until(pilot, lambda: not view.reading and view.is_read)
    return view


def charts(view: CompareScreen) -> list[Chart]:
    return [chart for chart in view.query(Chart) if chart.display]


def are_drawn(view: CompareScreen) -> bool:
    return all(len(chart.lines) == len(RUNS) and chart.size.height > 2 for chart in charts(view))


@pytest.mark.parametrize(
    ("size", "counts"), [((80, 24), [1, 1, 1, 1]), ((120, 36), [1, 2, 4, 4]), ((250, 70), [1, 2, 4, MOST])]
)
def test_as_many_metrics_as_are_wanted_and_fit_are_beside_each_other(
    world: World, size: tuple[int, int], counts: list[int]
) -> None:
    fill(world)

    async def use(pilot: Pilot[None]) -> None:
        view = await opened(pilot)
        for count in [*counts, 1]:
            await until(pilot, lambda count=count: len(charts(view)) == count and are_drawn(view))  # type: ignore[misc]
            shown = view.metrics_shown
            assert len({*shown}) == count
            for chart, name in zip(charts(view), shown, strict=True):
                assert chart.title.startswith(name)
                assert [line.colour for line in chart.lines] == [line.colour for line in view.chart.lines]
                assert [line.sign for line in chart.lines] == [line.sign for line in view.chart.lines]
            await pilot.press("v")

    drive(world.board(), use, size)


def test_the_key_m_steps_through_the_metrics_of_a_wall_and_the_filter_chooses_them(world: World) -> None:
    fill(world)

    async def use(pilot: Pilot[None]) -> None:
        view = await opened(pilot)
        await pilot.press("v")
        await until(pilot, lambda: len(charts(view)) == 2 and are_drawn(view))
        first, second = view.metrics_shown
        await pilot.press("m")
        await until(pilot, lambda: view.metrics_shown[0] == second and are_drawn(view))
        assert first not in view.metrics_shown
        await pilot.press("slash", *"^lr$", "enter")
        await until(pilot, lambda: view.metrics_shown == ["lr"] and len(charts(view)) == 1 and are_drawn(view))
        await pilot.press("escape")
        await until(pilot, lambda: view.metrics_shown[0] == "lr" and len(charts(view)) == 2 and are_drawn(view))

    drive(world.board(), use, (120, 36))


def test_crosshair_zoom_and_x_axis_are_those_of_all_charts(world: World) -> None:
    fill(world)

    async def use(pilot: Pilot[None]) -> None:
        view = await opened(pilot)
        await pilot.press("v")
        await until(pilot, lambda: len(charts(view)) == 2 and are_drawn(view))
        one, two = charts(view)
        assert one.own != two.own
        assert one.view == two.view == (1.0, 99.0)
        await pilot.press("comma", "comma")
        assert one.cross is not None
        assert one.cross == two.cross
        await shows(pilot, "AT CURSOR")
        await pilot.hover(two, offset=(20, 4))
        await until(pilot, lambda: one.cross == two.cross != 99.0)
        await pilot.press("plus")
        assert one.chosen == two.chosen is not None
        await pilot.press("left")
        assert one.chosen == two.chosen
        two.zoom(0.5)
        two.post_message(Looked(two))
        await until(pilot, lambda: one.chosen == two.chosen)
        await pilot.press("v", "v")  # a chart that comes later is zoomed as the others are
        await pilot.resize_terminal(160, 60)
        await until(pilot, lambda: len(charts(view)) > 2 and are_drawn(view))
        assert len({chart.chosen for chart in charts(view)}) == 1
        await pilot.press("0")
        assert all(chart.chosen is None and chart.cross is None for chart in view.query(Chart))

    drive(world.board(), use, (120, 36))


def test_only_what_is_shown_is_read_and_the_choice_is_remembered(world: World) -> None:
    fill(world)

    async def use(pilot: Pilot[None]) -> None:
        view = await opened(pilot)
        assert {name for _, name in view.wants().curves} == {view.choices.metric}
        await pilot.press("v", "v", "v")
        await until(pilot, lambda: len(charts(view)) == 4 and are_drawn(view))
        assert {name for _, name in view.wants().curves} == {*view.metrics_shown}
        await pilot.press("t")
        assert {name for _, name in view.wants().curves} == {view.choices.metric}

    drive(world.board(), use, (120, 36))

    async def again(pilot: Pilot[None]) -> None:
        view = await opened(pilot)
        assert view.choices.panels == WALL
        await until(pilot, lambda: len(charts(view)) == 4 and are_drawn(view))
        await pilot.resize_terminal(80, 24)
        await until(pilot, lambda: len(charts(view)) == 1 and are_drawn(view))

    drive(world.board(), again, (120, 36))


def test_a_metric_that_some_runs_lack_has_a_chart_that_says_so(world: World) -> None:
    fill(world, ("loss",), lacking="accuracy")

    async def use(pilot: Pilot[None]) -> None:
        view = await opened(pilot)
        await pilot.press("v")
        await shows(pilot, "accuracy · 2 runs without it")
        assert [len(chart.lines) for chart in charts(view)] == [3, 1]

    drive(world.board(), use, (120, 36))


@pytest.mark.parametrize("width", [100, 120])
def test_the_last_line_names_the_key_that_chooses_how_many_metrics_are_shown(world: World, width: int) -> None:
    fill(world)

    async def use(pilot: Pilot[None]) -> None:
        view = await opened(pilot)
        assert " v panels " in view.keys.render().plain
        await pilot.press("t")
        await until(pilot, lambda: " v setting " in view.keys.render().plain)

    drive(world.board(), use, (width, 36))
