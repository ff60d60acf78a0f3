"""Compare: pages, the run under the cursor, what is left out, and what is written."""

from __future__ import annotations

import json
import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from armada.compare.picture import svg
from armada.store import runs
from armada.tui.scales import pareto_front, scale_of
from armada.tui.screens.compare import CompareScreen
from armada.tui.screens.compare_curves import BEHIND
from armada.tui.screens.compare_picture import picture_of
from armada.tui.screens.output import OutputWindow
from armada.tui.screens.prompt import Prompt
from armada.tui.symbols import ASCII, UNICODE, Symbols
from armada.tui.widgets.chart import NAMES
from armada.tui.widgets.parallel import Parallel
from armada.tui.widgets.plot import Drawn
from armada.tui.widgets.scatter import Scatter
from tests.tui.conftest import World, drive, lacks, said, screen, shows, strips, until


def fill(world: World) -> None:
    """Three runs: two priced in euros, one of another host in dollars; the third has no loss."""
    prices = {"box": "10 EUR", "other": "10 USD"}
    world.hosts(**{name: {"ssh": f"root@{name}.example", "price": price} for name, price in prices.items()})
    for run_id, host, rate, kind in (
        ("one-aaaaaa", "box", 1e-5, "cosine"),
        ("two-bbbbbb", "other", 1e-3, "linear"),
        ("six-cccccc", "box", 1e-4, "[red]const[/]"),
    ):
        train = {"learning_rate": rate, "scheduler": kind, "seed": 5}
        world.run(run_id, host=host, spec={"job": {"argv": []}, "experiment": {"train": train}}, step=3, total_steps=9)
        if run_id != "six-cccccc":
            world.losses(run_id, [3.0, 2.0 - 500 * rate, 2.5])
    folder = world.home.run("one-aaaaaa") / "outputs"
    folder.mkdir(parents=True)
    rows = [
        {"step": step, "prompt": "[b]2+2?", "expected": "4", "generated": f"maybe\x1b[2J {step}"} for step in (10, 20)
    ]
    (folder / "samples.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))


def compared(pilot: Pilot[None]) -> CompareScreen:
    view = pilot.app.screen
    assert isinstance(view, CompareScreen)
    return view


async def opened(pilot: Pilot[None]) -> CompareScreen:
    await shows(pilot, "one-aaaaaa", "two-bbbbbb", "six-cccccc")
    await pilot.press("a", "c")
    await shows(pilot, "loss against step")
    view = compared(pilot)
    await until(pilot, lambda: not view.reading and view.is_read)
    return view


def test_figures_per_run_follow_the_crosshair_the_cursor_and_the_pin(world: World) -> None:
    fill(world)

    async def use(pilot: Pilot[None]) -> None:
        view = await opened(pilot)
        seen = await shows(pilot, "1 run without it", "AT STEP", "train.learning_rate")
        best = next(line for line in seen.splitlines() if "one-aaaaaa" in line and "running" in line)
        last, lowest, step, cost, currency = best.split()[-8:-3]
        assert (last, lowest, step, currency) == ("2.5", "1.995", "2", "EUR")
        assert float(cost) >= 10  # it costs while one looks
        await pilot.press("comma", "comma")
        assert view.chart.cross is not None
        await shows(pilot, "at step", "AT CURSOR")
        place = view.run_ids.index("one-aaaaaa")
        letter = view.chart.lines[0].sign
        await pilot.press(*["j"] * place, "P")
        await until(pilot, lambda: view.run_ids[0] == "one-aaaaaa")
        assert view.chart.lines[-1].lit, "the run under the cursor is drawn over the others"
        assert letter in {line.sign for line in view.chart.lines}, "colours and letters stay"
        await pilot.press("b", "b", "b")
        await shows(pilot, "loss against cost", "1 run in another currency left out")
        await pilot.press("enter")
        await shows(pilot, "one-aaaaaa", "checkpoints", "overview")

    drive(world.board(), use)


def test_pages_draw_axes_scatter_front_and_samples(world: World) -> None:
    fill(world)

    async def use(pilot: Pilot[None]) -> None:
        view = await opened(pilot)
        await pilot.press("p")
        await shows(
            pilot, "settings and lowest loss", "train.learning_rate", "train.scheduler", "[red]const[/]", "1e-05"
        )
        await pilot.press("t")
        await shows(pilot, "lowest loss against", "v: another setting")
        titles = []
        for _ in range(6):
            assert view.scatter.x is not None
            titles.append(view.scatter.x.title)
            await pilot.press("v")
        assert {"train.learning_rate", "train.scheduler", "cost", "hours", "steps"} <= set(titles)
        await pilot.press("V", "o")
        await shows(pilot, "lowest loss against cost", "front: ", "1 in another currency left out")
        await pilot.press("m")
        await shows(pilot, "no front: it is not known whether")
        await pilot.press("M", "a", *["j"] * view.run_ids.index("one-aaaaaa"))
        seen = await shows(pilot, "prompt: [b]2+2?", "maybe�[2J 20", "expected: 4")
        assert seen.index("J 10") < seen.index("J 20"), "as on a run's page, the oldest step comes first"
        assert "│ 1 of 1     prompt: [b]2+2?" in seen, "a blank is within the frame"
        await pilot.press("m", "M", "f")
        await shows(pilot, "DIFFERS IN", "train.scheduler")
        await lacks(pilot, "AT CURSOR")
        await pilot.press("tab", "shift+tab", "shift+tab")
        await shows(pilot, "loss against step")

    drive(world.board(), use)


def test_keys_before_anything_is_read_break_nothing(world: World) -> None:
    fill(world)

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "one-aaaaaa", "two-bbbbbb")
        keys = (
            "plus",
            "minus",
            "comma",
            "right",
            "s",
            "L",
            "L",
            "m",
            "M",
            "P",
            "p",
            "v",
            "V",
            "t",
            "o",
            "a",
            "m",
            "f",
            "c",
        )
        await pilot.press("a", "c", *keys)
        view = compared(pilot)
        await until(pilot, lambda: len(view.chart.lines) == 2)
        await shows(pilot, "smoothed 0.6")

    drive(world.board(), use)


@pytest.mark.parametrize("count", [3, 4, 20])
def test_the_measured_curve_is_behind_the_smooth_one_of_the_first_run_and_the_one_under_the_cursor(
    world: World, count: int
) -> None:
    for number in range(count):
        world.run(f"run-{number:06}", step=9, total_steps=9)
        world.losses(f"run-{number:06}", [3.0 + number, 2.0, 2.5 + number])

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, f"run-{count - 1:06}")
        await pilot.press("a", "c")
        view = compared(pilot)
        await until(pilot, lambda: len(view.chart.lines) == count and not view.reading)

        def measured() -> set[str]:
            return {line.sign for line in view.chart.lines if line.behind is not None}

        def signs(*places: int) -> set[str]:
            return {NAMES[view.places[view.run_ids[place]]] for place in (places if count > BEHIND else range(count))}

        assert not measured()
        await pilot.press("s")
        await until(pilot, lambda: measured() == signs(0))
        await pilot.press("j", "j")
        await until(pilot, lambda: measured() == signs(0, 2))
        under_cursor = view.run_ids[2]
        await pilot.press("P")
        await until(pilot, lambda: view.run_ids[0] == under_cursor and measured() == signs(0))
        await pilot.press("j")
        await until(pilot, lambda: measured() == signs(0, 1))
        await pilot.press("s", "s", "s")
        await until(pilot, lambda: not measured())

    drive(world.board(), use, (120, 36))


def test_a_run_that_is_removed_meanwhile_leaves_every_page(world: World) -> None:
    fill(world)

    async def use(pilot: Pilot[None]) -> None:
        view = await opened(pilot)
        for key, run_id in (("t", "six-cccccc"), ("p", "two-bbbbbb"), ("f", "one-aaaaaa")):
            await pilot.press(key)
            runs.delete(world.database, run_id)
            await until(pilot, lambda run_id=run_id: run_id not in [row.id for row in view.rows])  # type: ignore[misc]
            for page in "ctpofa":
                await pilot.press(page)
        await pilot.press("P", "d", "enter", "m", "v")
        await shows(pilot, "0 runs")

    drive(world.board(), use)


def test_values_of_any_size_and_names_of_any_length_are_drawn(world: World) -> None:
    long = "x[red]" * 50
    for number, values in enumerate(([math.nan] * 3, [1.7e308, -1.7e308, 1.0], [0.5], [math.inf, 5e-324, 1.0])):
        run_id = world.run(f"r{number}-{str(number) * 6}", name="[b]" * 100, step=3, total_steps=3)
        world.losses(run_id, values, name=long)

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "4 of 4 runs")
        await pilot.press("a", "c")
        view = compared(pilot)
        await until(pilot, lambda: view.is_read)
        await pilot.press("m", "m")
        await shows(pilot, "x[red]x[red]")
        await until(pilot, lambda: view.choices.metric.startswith("x[red]") and not view.reading)
        await pilot.press("comma", "s", "L", "L")
        for key in "cptof":
            await pilot.press(key)
            await pilot.pause()
            assert key == "f" or "nan" not in svg(picture_of(view))
        await pilot.press("c")
        await shows(pilot, "NaN", "0.5")

    drive(world.board(), use)


def test_curves_that_end_at_the_largest_numbers_are_drawn(world: World) -> None:
    for name, value in (("one-aaaaaa", 1.7e308), ("two-bbbbbb", -1.7e308), ("six-cccccc", math.inf)):
        world.run(name, step=2, total_steps=3)
        world.losses(name, [1.0, value])

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "3 of 3 runs")
        await pilot.press("a", "c")
        view = compared(pilot)
        await until(pilot, lambda: len(view.chart.lines) == 3)
        seen = await shows(pilot, " 1.70e+308", "-1.70e+308", "inf since step 2")
        (last,) = [line for line in seen.splitlines() if "six-cccccc" in line and "running" in line]
        assert " inf " in last
        assert "NaN" not in last

    drive(world.board(), use)


def test_a_picture_and_a_report_are_written_and_never_over_a_file(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(world)
    board = world.board()
    started: list[list[str]] = []
    monkeypatch.setattr(board, "operate", lambda _title, words: started.append(words))

    async def answer(pilot: Pilot[None], key: str, path: str) -> None:
        await pilot.press(key)
        await until(pilot, lambda: isinstance(pilot.app.screen, Prompt))
        field = pilot.app.screen.query_one("Input")
        field.value = path  # type: ignore[attr-defined]  # it is an Input
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(pilot.app.screen, CompareScreen))

    async def use(pilot: Pilot[None]) -> None:
        await opened(pilot)
        for key, words in (("c", "polyline"), ("p", "train.scheduler"), ("t", "circle"), ("o", "circle")):
            await pilot.press(key)
            await pilot.pause()
            await answer(pilot, "E", f"{key}.svg")
            drawn = Path(f"{key}.svg").read_text()
            assert words in drawn
            assert "nan" not in drawn
        await answer(pilot, "E", "c.svg")
        await until(pilot, lambda: "c.svg" in said(pilot) and "exists" in said(pilot))
        await answer(pilot, "E", "c.gif")
        await until(pilot, lambda: "must end in .svg or .png" in said(pilot))
        await answer(pilot, "E", f"{'x' * 300}.svg")
        await until(pilot, lambda: "cannot be written: File name too long" in said(pilot))
        await pilot.press("a", "E")
        await until(pilot, lambda: "press it on curves" in said(pilot))
        await answer(pilot, "R", "-r.html")
        assert started == [["report", *compared(pilot).run_ids, "--html=-r.html"]]

    drive(board, use)


def test_two_runs_are_compared_as_armada_diff_does(world: World) -> None:
    fill(world)

    async def use(pilot: Pilot[None]) -> None:
        view = await opened(pilot)
        await pilot.press("j", "d")
        await until(pilot, lambda: isinstance(pilot.app.screen, OutputWindow))
        await shows(pilot, f"armada diff {view.run_ids[0]} {view.run_ids[1]}", "train.learning_rate")

    drive(world.board(), use)


@pytest.mark.parametrize(
    ("values", "kind", "shares"),
    [
        ([1, 2, 3], "linear", [0, 0.5, 1]),
        ([1e-5, 1e-4, 1e-3, None], "log", [0, 0.5, 1, None]),
        ([7, 7, None], "linear", [0.5, 0.5, None]),
        (["b", "a", None], "category", [1, 0, None]),
        ([True, 1], "category", [1, 0]),
        ([1, "1e-5"], "category", [0, 1]),
        ([10**400, 1], "category", None),
        ([math.nan, 1.0], "category", None),
        ([0.0, 100.0], "linear", [0, 1]),
        ([None, None], "category", [None, None]),
        ([], "category", []),
        ([{"x": 1}, [2]], "category", None),
        ([-1e300, 1e300], "linear", [0, 1]),
    ],
)
def test_values_of_any_kind_have_a_place(values: list[Any], kind: str, shares: list[float | None] | None) -> None:
    found = scale_of("x", values)
    assert found.kind == kind
    assert len(found.shares) == len(found.texts) == len(values)
    assert all(share is None or 0 <= share <= 1 for share in found.shares)
    assert all(0 <= share <= 1 + 1e-9 for share, _ in found.marks)
    if shares is not None:
        assert list(found.shares) == [None if share is None else pytest.approx(share) for share in shares]


def test_texts_that_begin_alike_are_told_apart_by_what_follows() -> None:
    commands = ['["python3", "train.py", "lr=1e-05"]', '["python3", "train.py", "lr=1e-06"]']
    axis = scale_of("job.command", commands)
    assert [label for _, label in axis.marks] == ['…1e-05"]', '…1e-06"]']
    assert axis.texts == tuple(commands)
    assert [label for _, label in scale_of("kind", ["adam", "adamw", None]).marks] == ["adam", "adamw"]


def test_a_setting_with_one_value_has_no_axis_and_is_not_what_the_scatter_begins_with(world: World) -> None:
    for run_id, train in (
        ("one-aaaaaa", {"accumulate": 4, "rate": 1e-5}),
        ("two-bbbbbb", {"rate": 1e-3}),
        ("six-cccccc", {"rate": 1e-4}),
    ):
        world.run(run_id, spec={"job": {"argv": []}, "experiment": {"train": train}}, step=3, total_steps=9)
        world.losses(run_id, [3.0, 2.0])

    async def use(pilot: Pilot[None]) -> None:
        view = await opened(pilot)
        assert [each.key for each in view.found] == ["train.accumulate", "train.rate"]
        await pilot.press("p")
        seen = await shows(pilot, "settings and lowest loss", "train.rate")
        assert "accumulate" not in seen
        await pilot.press("t")
        await shows(pilot, "lowest loss against train.rate")
        await pilot.press("V")
        await shows(pilot, "lowest loss against train.accumulate")

    drive(world.board(), use)


def test_axes_are_of_settings_that_differ_among_the_runs_with_the_metric(world: World) -> None:
    for run_id, chosen in (
        ("one-aaaaaa", {"train": {"rate": 1e-5}}),
        ("two-bbbbbb", {"train": {"rate": 1e-3}}),
        ("six-cccccc", {"command": ["a"], "alpha": 3}),
        ("ten-dddddd", {"command": ["b"], "alpha": 4}),
    ):
        world.run(run_id, spec={"job": {"argv": []}, "experiment": chosen}, step=3, total_steps=9)
        if "train" in chosen:
            world.losses(run_id, [3.0, 2.0])

    async def use(pilot: Pilot[None]) -> None:
        view = await opened(pilot)
        assert [each.key for each in view.found] == ["alpha", "command", "train.rate"]
        await pilot.press("p")
        seen = await shows(pilot, "settings and lowest loss", "train.rate")
        assert "command" not in seen
        assert "alpha" not in seen
        await pilot.press("t")
        await shows(pilot, "lowest loss against train.rate")

    drive(world.board(), use)


def test_the_front_has_what_nothing_dominates() -> None:
    costs, losses = [1.0, 2.0, 3.0, None, 2.0], [3.0, 2.0, 2.0, 0.0, 2.0]
    assert pareto_front(costs, losses, "min") == {0, 1, 4}
    assert pareto_front(costs, losses, "max") == {0}
    assert pareto_front([None], [1.0], "min") == set()


@pytest.mark.parametrize("size", [(1, 1), (3, 2), (20, 5), (80, 20), (500, 200)])
def test_plots_fill_any_size(size: tuple[int, int]) -> None:
    width, height = size
    names = [f"name {number}\N{CJK UNIFIED IDEOGRAPH-65E5}" for number in range(20)]
    runs = [Drawn(chr(97 + place), place, lit=place == 3) for place in range(20)]
    scales = [scale_of("größe" * 60, [place or None for place in range(20)]), scale_of("x", names)] * 6
    parallel, scatter = Parallel(UNICODE), Scatter(UNICODE)
    parallel.axes, parallel.runs = tuple(scales), tuple(runs)
    scatter.x, scatter.y, scatter.runs, scatter.front = scales[1], scales[0], tuple(runs), frozenset({3, 4})
    for plot in (parallel, scatter):
        lines = plot.cells(width, height)
        assert len(lines) <= max(height, 2)
        assert all(len(line) <= width for line in lines), plot


@pytest.mark.parametrize("symbols", [UNICODE, ASCII])
def test_a_letter_in_parallel_coordinates_has_its_colour_and_a_faint_line_has_not(symbols: Symbols) -> None:
    parallel = Parallel(symbols)
    parallel.axes = (scale_of("lora.r", [8, 16, 24]), scale_of("loss", [0.5, 0.8, 0.4], log=False))
    parallel.runs = tuple(Drawn(chr(97 + place), place, lit=place == 2) for place in range(3))
    cells = [cell for line in parallel.cells(60, 20)[1:] for cell in line]
    for run in parallel.runs:
        assert {style for character, style in cells if character == run.sign} == {run.style}
    coloured = {style for character, style in cells if character != " " and style.startswith("curve-")}
    assert coloured == {run.style for run in parallel.runs}
    lines = {style for character, style in cells if character not in " abc0123456789." and style != "dim"}
    assert lines == {parallel.runs[2].style, "grid"}


@pytest.mark.parametrize("height", [8, 9, 12, 30])
def test_the_ticks_of_a_plane_stay_at_equal_distances_where_not_all_have_room(height: int) -> None:
    losses = [0.31, 0.58, 0.92, 2.12]
    scatter = Scatter(UNICODE)
    scatter.x, scatter.y = scale_of("lora.r", [8, 16, 24, 32]), scale_of("loss", losses, log=False)
    scatter.runs = tuple(Drawn(chr(97 + place), place, lit=False) for place in range(4))
    lines = ["".join(character for character, _ in line) for line in scatter.cells(60, height)]
    ticks = [float(line.split()[0]) for line in lines[1:-2] if line[:8].strip()]
    assert len(ticks) > 1
    assert len({round(before - after, 9) for before, after in pairwise(ticks)}) == 1, ticks


@pytest.mark.parametrize(
    "size",
    [(1, 1), (80, 24), *(pytest.param(each, marks=pytest.mark.long) for each in ((49, 15), (200, 60)))],
)
def test_every_page_fits_the_terminal_in_ascii_too(
    world: World, size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    if size == (80, 24):
        monkeypatch.setenv("LC_ALL", "C")
    fill(world)

    async def use(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: len(pilot.app.snapshot.runs) == 3)  # type: ignore[attr-defined]
        await pilot.press("a", "c")
        view = compared(pilot)
        await until(pilot, lambda: view.is_read and not view.reading)
        for key in "cfptoa":
            await pilot.press(key)
            await pilot.pause()
            assert len(strips(pilot.app)) == size[1]
            assert all(strip.cell_length == size[0] for strip in strips(pilot.app))
            assert size != (80, 24) or screen(pilot).isascii()

    drive(world.board(), use, size)
