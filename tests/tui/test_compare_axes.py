"""Compare: what the axes of its plots span, where their ticks are, and which settings come first."""

from __future__ import annotations

from typing import Any

import pytest
from textual.pilot import Pilot

from armada.compare.settings import Difference
from armada.tui.scales import both, scale_of
from armada.tui.screens.compare_text import most_common, setting_scales, tuned_in
from armada.tui.screens.run import RunScreen
from armada.tui.symbols import ASCII, UNICODE, Symbols
from armada.tui.widgets.chart import Chart
from armada.tui.widgets.chart_plane import LABEL as PLOT
from armada.tui.widgets.parallel import Parallel
from armada.tui.widgets.plot import Drawn
from tests.tui.conftest import World, drive, shows, until
from tests.tui.test_compare import compared


def test_axes_span_the_runs_that_are_drawn(world: World) -> None:
    world.hosts(box={"ssh": "root@box.example", "price": "10 EUR"}, free={"ssh": "root@free.example"})
    for run_id, host, loss in (
        ("one-aaaaaa", "box", 1.0),
        ("two-bbbbbb", "box", 2.0),
        ("six-cccccc", "free", 90.0),
        ("ten-dddddd", "box", None),
    ):
        started: dict[str, Any] = {} if loss is not None else {"started_at": 1.0}
        world.run(run_id, host=host, step=3 if loss is not None else 9000, total_steps=9000, **started)
        world.losses(run_id, [loss] if loss is not None else [])

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "one-aaaaaa", "ten-dddddd")
        await pilot.press("a", "c", "o")
        await shows(pilot, "lowest loss against cost", "1 without a price left out", "front: ")
        view = compared(pilot)
        x, y, front, _ = view.scatter_axes()
        assert y.bounds == (1.0, 2.0)
        assert x.bounds is not None
        assert x.bounds[1] < 1000, "the run without a loss costs more than all, and is not drawn"
        assert front == {view.run_ids.index("one-aaaaaa")} or front == {0, 1}
        await pilot.press("m", "M")
        while view.scatter_axes()[0].title != "steps":
            await pilot.press("t" if view.shown != "scatter" else "v")
        await until(pilot, lambda: view.scatter_axes()[1].bounds == (1.0, 90.0))
        assert not view.scatter_axes()[0].varies, "the run with more steps is not drawn"

    drive(world.board(), use)


def test_the_crosshair_moves_by_ten_columns_too(world: World) -> None:
    for run_id in ("one-aaaaaa", "two-bbbbbb"):
        world.run(run_id, step=101, total_steps=101)
        world.losses(run_id, [1.0 + step for step in range(101)])

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "one-aaaaaa", "two-bbbbbb")
        await pilot.press("a", "c")
        view = compared(pilot)
        await until(pilot, lambda: not view.reading and len(view.chart.lines) == 2)
        column = 100 / (view.chart.size.width - PLOT - 1)
        await pilot.press("comma")
        places = [view.chart.cross]
        for key in ("less_than_sign", "less_than_sign", "greater_than_sign", "full_stop"):
            await pilot.press(key)
            places.append(view.chart.cross)
        assert places == [pytest.approx(101 - columns * column) for columns in (0, 10, 20, 10, 9)]
        await pilot.press("1", "enter", "c")
        run = pilot.app.screen
        assert isinstance(run, RunScreen)
        await shows(pilot, "lowest")
        await pilot.press("comma", "less_than_sign")
        await shows(pilot, "at step")
        before = [chart.cross for chart in run.query(Chart) if chart.cross is not None]
        await pilot.press("greater_than_sign")
        await until(pilot, lambda: [chart.cross for chart in run.query(Chart) if chart.cross is not None] > before)

    drive(world.board(), use)


def test_a_dashed_curve_has_its_letter_along_it(world: World) -> None:
    for number in range(8):
        world.run(f"r{number}-aaaaa{number}", step=50, total_steps=50)
        world.losses(f"r{number}-aaaaa{number}", [1.0 + number] * 50)

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "8 of 8 runs")
        await pilot.press("a", "c")
        view = compared(pilot)
        await until(pilot, lambda: not view.reading and len(view.chart.lines) == 8)
        seen = await shows(pilot, "best 1 ")
        curves = seen.partition("loss against step")[2].partition("╰")[0]
        assert [min(3, curves.count(letter)) for letter in "abgh"] == [1, 1, 3, 3]

    drive(world.board(), use, (140, 50))


def test_two_axes_keep_the_runs_that_both_have() -> None:
    x, y = both(scale_of("x", [1, 2, 3000, None]), scale_of("y", [5.0, 6.0, None, 700.0], log=False))
    assert (x.kind, x.bounds, y.bounds) == ("linear", (1.0, 2.0), (5.0, 6.0))
    assert x.shares == (0.0, 1.0, None, None)
    apart = both(scale_of("x", [1, None]), scale_of("y", [None, 2]))
    assert [each.known for each in apart] == [1, 1], "there is nothing to draw, and the reason is said from these"
    kinds, _ = both(scale_of("x", ["a", "b", "c"]), scale_of("y", [1, None, 2]))
    assert [label for _, label in kinds.marks] == ["a", "c"]


@pytest.mark.parametrize(
    ("values", "labels"),
    [
        ([1, 2, 1, None], ["1", "2"]),
        ([8, 16, 64], ["8", "16", "64"]),
        ([1e-5, 1e-3, 2e-4], ["1e-05", "0.0002", "0.001"]),
        ([7, 7], ["7"]),
        (list(range(1, 7)), ["1", "2", "3", "4", "5", "6"]),
    ],
)
def test_few_different_numbers_of_a_setting_are_its_ticks(values: list[float | None], labels: list[str]) -> None:
    (scale,) = setting_scales([Difference("x", tuple(values))])
    assert [label for _, label in scale.marks] == labels
    assert {share for share, _ in scale.marks} == {share for share in scale.shares if share is not None}
    assert all(marks == scale.marks for marks in scale.finer)


def test_many_different_numbers_have_round_ticks() -> None:
    (scale,) = setting_scales([Difference("x", tuple(range(0, 101, 7)))])
    assert [label for _, label in scale.marks] == ["0", "20", "40", "60", "80"]


@pytest.mark.parametrize("symbols", [UNICODE, ASCII])
def test_labels_stand_apart_from_letters_and_curves(symbols: Symbols) -> None:
    parallel = Parallel(symbols)
    parallel.axes = (
        scale_of("processes", [1, 2, 2, 1], exact=True),
        scale_of("rate", [1e-3, 1e-3, 1e-4, 1e-3], exact=True),
        scale_of("loss", [1.0, 2.0, 1.5, 2.0], log=False),
    )
    parallel.runs = tuple(Drawn(chr(97 + place), place, lit=place == 0) for place in range(4))
    text = "\n".join("".join(character for character, _ in line) for line in parallel.cells(70, 16))
    for label in ("1", "2", "0.001", "0.0001"):
        assert f" {label} " in text, text
    assert "a 1.0 " in text


def test_what_a_sweep_tunes_comes_first_and_what_armada_derived_last() -> None:
    kinds: tuple[Any, ...] = ("a", "b", "c")
    found = [Difference(key, (1, 2, 2)) for key in ("alpha", "(batch).processes", "lora.r")]
    found += [Difference(key, kinds) for key in ("data", "train.kind")]
    swept = {"sweep": {"id": "x", "cell": 1, "label": "", "values": {"train.kind": "a", "lora.r": 2}}}
    tuned = tuned_in([swept, {}])
    assert tuned == {"train.kind", "lora.r"}
    scales = [scale.title for scale in setting_scales(found, tuned)]
    assert scales == ["lora.r", "train.kind", "alpha", "data", "(batch).processes"]


def test_compare_lists_what_a_sweep_tunes_first(world: World) -> None:
    for cell, rank in enumerate((8, 16), 1):
        spec = {
            "job": {"argv": []},
            "experiment": {"alpha": 2 * rank, "lora": {"r": rank}},
            "training": {"batch": {"processes": cell}},
            "sweep": {"id": "r-x7", "cell": cell, "label": f"r={rank}", "values": {"lora.r": rank}},
        }
        world.run(f"r-{cell}aaaaaa", spec=spec, step=3, total_steps=3)
        world.losses(f"r-{cell}aaaaaa", [2.0, 1.0 + cell])

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "r-x7 (2 cells)")
        await pilot.press("c", "p")
        await shows(pilot, "settings and lowest loss", "(batch).processes")
        view = compared(pilot)
        titles = ["lora.r", "alpha", "(batch).processes"]
        assert [each.title for each in view.axes()] == [*titles, "lowest loss"]
        assert [each.key for each in view.found] == titles
        await pilot.press("t")
        await shows(pilot, "lowest loss against lora.r")

    drive(world.board(), use)


@pytest.mark.parametrize(
    ("currencies", "shown"),
    [((), None), (("EUR", "USD", "USD"), "USD"), (("USD", "EUR"), "USD"), (("EUR", "USD", "EUR", "USD"), "EUR")],
)
def test_money_is_shown_in_the_currency_of_most_runs(currencies: tuple[str, ...], shown: str | None) -> None:
    assert most_common(currencies) == shown
