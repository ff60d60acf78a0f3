"""The charts of one run: which metrics, against what, and what stands beside them."""

from __future__ import annotations

import math
import time

import pytest
from textual.pilot import Pilot
from textual.widgets import Input

from armada.costs.price import Price
from armada.costs.tariff import Tariff
from armada.store import metrics, runs, transitions
from armada.tui.chart_choices import ChartChoices
from armada.tui.curves import Curve
from armada.tui.screens.overview_text import overview
from armada.tui.screens.run import RunScreen
from armada.tui.snapshot import Kept, RunRow
from armada.tui.symbols import UNICODE
from armada.tui.widgets.chart import NAMES, Chart
from armada.tui.x_axis import XAxis
from tests.tui.conftest import World, drive, lacks, screen, shows, until

NOW = 1_790_000_000.0


def row_of(world: World, tariff: Tariff | None, **facts: object) -> RunRow:
    run_id = world.run("demo-aaaaaa", **{"started_at": NOW - 7200, "gpus": "[0, 1]", **facts})  # type: ignore[arg-type]
    found = runs.find(world.database, run_id)
    return RunRow(found, "demo", "box", Kept(None, None, 0, 0), None, tariff)


def curve(*moments: float) -> Curve:
    return Curve((step, moment, 1.0) for step, moment in enumerate(moments))


@pytest.fixture
def still(world: World, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr(time, "time", lambda: NOW)
    return world


def test_money_is_reckoned_with_the_price_that_was_valid_then(still: World) -> None:
    row = row_of(still, Tariff((Price(10.0), Price(30.0, valid_from=NOW - 3600))))
    placed = XAxis().place(row, "loss", curve(NOW - 7200, NOW - 3600, NOW - 1800), "cost", None, NOW)
    assert list(placed.xs) == pytest.approx([0.0, 10.0, 25.0])
    assert placed.unit == "USD"


@pytest.mark.parametrize(
    ("tariff", "why"),
    [
        (None, "it needs the host's price"),
        (Tariff((Price(10.0, valid_from=NOW - 3600),)), "its price is not known for all of the time"),
        (
            Tariff((Price(10.0), Price(10.0, currency="EUR", valid_from=NOW - 3600))),
            "its price changed to another currency",
        ),
    ],
)
def test_what_is_not_known_of_a_price_is_said_and_nothing_is_drawn(
    still: World, tariff: Tariff | None, why: str
) -> None:
    placed = XAxis().place(row_of(still, tariff), "loss", curve(NOW - 7200, NOW - 1800), "cost", None, NOW)
    assert (list(placed.xs), placed.why) == ([], why)


def test_the_overview_says_what_a_run_will_have_cost_at_its_last_step(still: World) -> None:
    pace = {"step": 50, "total_steps": 100, "step_time_s": 72.0, "observed_at": NOW}
    row = row_of(still, Tariff((Price(2.0),)), **pace)
    cost = next(each for each in overview(row, None, UNICODE, None, None) if each.label == "cost")
    assert cost.words == (("$4.00 at $2.00/h · about $6.00 at its last step", "plain"),)


def test_tokens_come_from_the_newest_count_before_each_step(still: World) -> None:
    row, axis = row_of(still, None), XAxis()
    tokens = Curve([(2, NOW, 100.0), (4, NOW, None), (6, NOW, 300.0)])
    points = Curve((step, NOW, 1.0) for step in (1, 2, 3, 5, 9))
    assert list(axis.place(row, "loss", points, "tokens", tokens, NOW).xs) == [0, 100, 100, 100, 300]
    tokens.extend([(8, NOW, 400.0)])
    assert list(axis.place(row, "loss", points, "tokens", tokens, NOW).xs)[-1] == 400
    assert axis.place(row, "loss", points, "tokens", None, NOW).why == "it needs the metric num_tokens"


def test_a_clock_that_runs_backwards_does_not_turn_the_curve_around(still: World) -> None:
    placed = XAxis().place(row_of(still, None), "loss", curve(NOW - 7200, NOW, NOW - 5000), "time", None, NOW)
    assert list(placed.xs) == [0.0, 7200.0, 7200.0]


def test_gaps_are_known_by_their_first_point_also_over_several_readings() -> None:
    points = Curve([(1, 0, 1.0), (2, 0, None), (3, 0, math.inf)])
    points.extend([(4, 0, math.nan), (5, 0, 2.0), (6, 0, None)])
    assert points.gaps == [1, 5]
    assert (points.best("min"), points.best("max"), points.best(None)) == ((1, 1.0), (5, 2.0), None)


def test_a_run_keeps_its_letter_unless_another_has_it() -> None:
    choices = ChartChoices()
    assert choices.place_runs(["a", "b", "c"], len(NAMES)) == [0, 1, 2]
    assert choices.place_runs(["c", "a"], len(NAMES)) == [2, 0]
    assert choices.place_runs(["d", "c"], len(NAMES)) == [0, 2]
    assert choices.place_runs(["a", "d"], len(NAMES)) == [0, 1]


def _resume(world: World) -> None:
    """Say that the run was submitted again, as `armada resume` does."""
    world.database.connection.execute(
        "INSERT INTO transitions (run_id, time, state, message) VALUES (?, ?, 'submitted', ?)",
        ("demo-aaaaaa", time.time() - 50, transitions.RESUMED),
    )


def test_charts_change_their_axis_show_figures_and_keep_the_choice(world: World) -> None:
    world.hosts(box={"ssh": "root@192.0.2.1", "price": "10 EUR"})
    world.run("demo-aaaaaa", step=100, total_steps=100)
    world.losses("demo-aaaaaa", [math.nan if 30 < step <= 40 else 3.0 / (1 + step) for step in range(100)])
    _resume(world)

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        await pilot.press("enter", "c", "plus", "comma")  # also before the curve is read
        await shows(pilot, "loss (1 of 2)", "highest   3          step 1", "NaN       10×, first at step 32")
        await shows(pilot, "✗ NaN", "↻ resumed", "resumed   1×")
        view = pilot.app.screen
        assert isinstance(view, RunScreen)
        await pilot.press("0", "comma")
        await shows(pilot, "at cursor 0.03       step 100")
        for words in ("by time", "by tokens", "by cost"):
            await pilot.press("b")
            seen = await shows(pilot, words)
        await shows(pilot, "EUR")
        assert "at cursor , or the mouse" in seen, "the crosshair had a place on another axis"
        await pilot.press("s", "L")
        chart = view.wall.query(Chart).first()
        await until(pilot, lambda: chart.lines and chart.lines[0].behind is not None)
        await pilot.press("escape", "enter", "c")
        await shows(pilot, "loss (1 of 2) by cost · smoothed 0.6", "(log")

    drive(world.board(), use)


def test_a_filter_finds_one_of_thousands_of_metrics(world: World) -> None:
    world.run("demo-aaaaaa", step=3, total_steps=9)
    long = "x[red]" * 50
    lines = [
        {"kind": "train", "step": 1, "time": time.time(), "loss": 1.0, long: 2.0},
        {"kind": "train", "step": 2, "time": time.time(), **{f"layer/{number}/norm": 1.0 for number in range(400)}},
    ]
    assert metrics.record_metrics(world.database, "demo-aaaaaa", lines, offset=0, next_offset=1)

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        await pilot.press("enter", "c")
        await shows(pilot, "loss (1 of 402)")
        await pilot.press("slash", *"r/399")
        await shows(pilot, "layer/399/norm (1 of 1 of 402)")
        await pilot.press("enter", "slash")
        pilot.app.screen.query_one("#find", Input).value = "zebra"
        await shows(pilot, "no metric matches zebra", "esc clears it")
        await pilot.press("enter", "m", "v", "comma", "plus")  # keys without a chart break nothing
        await pilot.press("escape")
        await shows(pilot, "(1 of 402)")
        await lacks(pilot, "no metric")
        await pilot.press("slash", *"^layer/1.*norm$")
        await shows(pilot, "(1 of 111 of 402)")
        await pilot.press("escape", "slash", *"red", "enter")
        await shows(pilot, "x[red]x[red]")
        assert "[red]" in screen(pilot)

    drive(world.board(), use)
