"""Where a run's curve is not finite and where the run was resumed, on one chart and over other runs; and what smoothing changes."""

from __future__ import annotations

import math
import time
import xml.etree.ElementTree as ET

import pytest
from textual.pilot import Pilot

from armada.compare.marks import NEAR, apart
from armada.compare.picture import COLOURS, Picture, Trace, svg
from armada.store import transitions
from armada.tui.curves import Levels, smoothed
from armada.tui.screens.compare import CompareScreen
from armada.tui.screens.compare_picture import picture_of
from armada.tui.screens.help import Here, words
from armada.tui.symbols import ASCII, UNICODE
from armada.tui.widgets.braille import Canvas
from armada.tui.widgets.chart import NAMES, Chart, value_beside
from armada.tui.widgets.chart_plane import Line, Mark
from tests.tui.conftest import World, drive, shows, strips, until


def unhappy(world: World) -> None:
    """Two runs: one lost its loss for a while, one was resumed."""
    world.run("lost-aaaaaa", name="lost", step=100, total_steps=100)
    world.losses("lost-aaaaaa", [math.nan if 30 < step <= 40 else 3.0 for step in range(100)])
    world.run("back-bbbbbb", name="back", step=100, total_steps=100)
    world.losses("back-bbbbbb", [1.0] * 100)
    world.database.connection.execute(
        "INSERT INTO transitions (run_id, time, state, message) VALUES (?, ?, 'submitted', ?)",
        ("back-bbbbbb", time.time() - 50, transitions.RESUMED),
    )


async def compared(pilot: Pilot[None]) -> CompareScreen:
    await shows(pilot, "aaaaaa", "bbbbbb")
    await pilot.press("a", "c")
    view = pilot.app.screen
    assert isinstance(view, CompareScreen)
    await until(pilot, lambda: len(view.chart.lines) == 2 and view.is_read and not view.reading)
    return view


@pytest.mark.parametrize(("locale", "gap", "resumed"), [("C.UTF-8", "✗", "↻"), ("C", "x", "R")])
def test_each_of_several_runs_has_its_marks_on_its_curve_after_its_letter(
    world: World, monkeypatch: pytest.MonkeyPatch, locale: str, gap: str, resumed: str
) -> None:
    monkeypatch.setenv("LC_ALL", locale)
    unhappy(world)

    async def use(pilot: Pilot[None]) -> None:
        view = await compared(pilot)
        lost, back = (NAMES[view.places[run_id]] for run_id in ("lost-aaaaaa", "back-bbbbbb"))
        seen = (await shows(pilot, f"{gap} NaN, {resumed} resumed", f"{lost}{gap}", f"{back}{resumed}")).splitlines()
        above, below = (
            next(at for at, line in enumerate(seen) if word in line) for word in (lost + gap, back + resumed)
        )
        assert above < below, "the loss of 3 is drawn over the one of 1"
        colours = {}
        for strip in strips(pilot.app):
            for segment in strip:
                for word in (lost + gap, back + resumed):
                    if word in segment.text and segment.style is not None:
                        colours[word] = segment.style.color
        chart = view.chart
        for number, line in enumerate(chart.lines):
            sign = gap if line.sign == lost else resumed
            assert colours[line.sign + sign] == chart._curve_style(number).color  # noqa: SLF001
        assert len(set(colours.values())) == 2
        await pilot.press("plus")
        await shows(pilot, "zoomed: 0 shows all")

    drive(world.board(), use)


def test_the_picture_of_a_comparison_has_the_marks_and_says_what_they_mean(world: World) -> None:
    unhappy(world)

    async def use(pilot: Pilot[None]) -> None:
        view = await compared(pilot)
        lost, back = (view.places[run_id] for run_id in ("lost-aaaaaa", "back-bbbbbb"))
        await until(pilot, lambda: all(line.marks for line in view.chart.lines))
        picture = picture_of(view)
        marks = {trace.colour: trace.marks for trace in picture.traces}
        ((x, y, kind),) = marks[lost]
        assert (round(x, 2), y, kind) == (round(31 / 99, 2), 1.0, "gap"), "at the height of the loss before"
        ((x, y, kind),) = marks[back]
        assert kind == "resumed"
        assert 0.4 < x < 0.6
        assert y == 0.0
        drawn = ET.fromstring(svg(picture))
        signs = [each.attrib["stroke"] for each in drawn.iter("{http://www.w3.org/2000/svg}path")]
        legend, ground = "#555555", "#ffffff"
        coloured = [stroke for run in picture.traces for stroke in (ground, COLOURS[run.colour])]
        assert signs == [*coloured, legend, legend]
        words = [each.text for each in drawn.iter("{http://www.w3.org/2000/svg}text")]
        assert {"NaN", "resumed"} <= set(words)
        view.chart.look((60.0, 99.0))
        assert "NaN" not in svg(picture_of(view)), "what is out of sight is not marked"

    drive(world.board(), use)


def test_marks_in_one_place_are_one_sign() -> None:
    marks = [(0.0, "gap"), (7.0, "gap"), (7.5, "resumed"), (8.0, "gap"), (9.0, "resumed")]
    assert [number for number, *_ in apart(marks)] == [0, 2, 3]  # type: ignore[arg-type]
    many = Trace("a", "run", 0, marks=tuple((place / 1000, 0.5, "gap") for place in range(1001)))
    assert svg(Picture("", "", "", (), (), (many,))).count("<path") <= 2 * (760 / NEAR + 2)


def test_a_sign_and_its_letter_stay_together_where_others_are() -> None:
    canvas = Canvas(10, 3)
    canvas.word(0, 0, "a✗", 0)
    canvas.word(2, 0, "b✗", 1)  # its cells are taken: the next row
    canvas.word(19, 11, "c✗", 2)
    rows = ["".join(text for text, _ in canvas.row(y, utf8=True)) for y in range(3)]
    assert rows == ["a✗        ", "b✗        ", "        c✗"]


def test_letters_of_runs_and_signs_differ_also_in_ascii() -> None:
    for symbols in (UNICODE, ASCII):
        signs = set(symbols.marks.values())
        assert len(signs) == 2
        assert not signs & set(NAMES)
        assert symbols.utf8 or all(sign.isascii() for sign in signs)


def line_of(values: list[float], **more: object) -> Line:
    raw = Levels(values)
    return Line("loss", [float(step) for step in range(len(values))], raw, **more)  # type: ignore[arg-type]


def test_signs_are_not_cut_off_where_the_heading_is_short() -> None:
    chart = Chart(UNICODE)
    chart.lines = (line_of([3.0, 2.0, 1.0], marks=[Mark(1.0, "gap", 1), Mark(2.0, "resumed", 2)]),)
    chart.logarithmic = True
    chart.look((0.0, 1.0))
    every = "  (log, zoomed: 0 shows all, ✗ NaN, ↻ resumed)"
    assert chart._notes(80) == every  # noqa: SLF001
    for room in range(len(every)):
        words = chart._notes(room)  # noqa: SLF001
        assert len(words) <= room
        assert not words or words.endswith(("all)", "NaN)", "resumed)"))


def test_the_figures_of_a_smoothed_curve_say_what_was_measured_and_what_is_smoothed() -> None:
    chart = Chart(UNICODE)
    values = [4.0, 1.0, 3.0, 2.0]
    made = smoothed(values, 0.6)
    line = line_of(values)._replace(levels=Levels(made), behind=Levels(values))
    chart.lines = (line,)
    assert chart._said(0, line, 100) == "raw 2"  # noqa: SLF001
    forms = chart._beside(line)  # noqa: SLF001
    assert forms[0] == "  lowest 1 · highest 4  smoothed 2.309, lowest 2.125 · highest 4"
    assert forms[-1] == "  lowest 1"
    assert sorted(forms, key=len, reverse=True) == forms
    chart.lines = (line._replace(behind=None, levels=Levels(values)),)
    assert chart._said(0, chart.lines[0], 100) == "2"  # noqa: SLF001
    assert chart._beside(chart.lines[0])[0] == "  lowest 1 · highest 4"  # noqa: SLF001


def test_the_smoothed_lowest_stands_beside_the_measured_one(world: World) -> None:
    world.run("demo-aaaaaa", step=4, total_steps=4)
    world.losses("demo-aaaaaa", [4.0, 1.0, 3.0, 2.0])

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        await pilot.press("enter", "c", "s")
        await shows(pilot, "raw 2  lowest 1 · highest 4  smoothed 2.", "lowest    1          step 2")
        await pilot.press("comma")
        await shows(pilot, "at step 4 raw 2  smoothed 2.", "at cursor 2          step 4")

    drive(world.board(), use)


def test_the_figures_of_several_smoothed_runs_say_that_they_are_not_smoothed(world: World) -> None:
    for run_id, last in (("lost-aaaaaa", 2.0), ("back-bbbbbb", 7.0)):
        world.run(run_id, step=2, total_steps=4)
        world.losses(run_id, [4.0, last])

    async def use(pilot: Pilot[None]) -> None:
        await compared(pilot)
        await pilot.press("s")
        await shows(pilot, "aaaaaa 2 ", "bbbbbb 7 ", "(values not smoothed)", "best: lowest loss · values not smoothed")

    drive(world.board(), use)


@pytest.mark.parametrize("width", [80, 120, 160])
def test_the_keys_that_charts_need_most_fit_under_them_at_every_width(world: World, width: int) -> None:
    unhappy(world)
    needed = ("+ zoom", "→ move", ", values", "s smooth", "b axis")

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "aaaaaa", "bbbbbb")
        await pilot.press("enter", "c")
        line = (await shows(pilot, "m metric", *needed)).splitlines()[-1]
        assert line.endswith("q quit")
        assert len(line) <= width
        await pilot.press("escape")
        await compared(pilot)
        line = (await shows(pilot, *needed)).splitlines()[-1]
        assert line.endswith("q quit")
        assert width == 80 or "m metric" in line

    drive(world.board(), use, (width, 36))


@pytest.mark.parametrize("page", ["charts", "curves"])
def test_help_says_what_the_signs_on_curves_mean_where_there_are_curves(page: str) -> None:
    of_page, of_other = (words("run", ASCII, read_only=False, here=Here("", (), each)).plain for each in (page, "log"))
    assert "On curves: x NaN begins" in of_page
    assert "R the run was resumed" in of_page
    assert of_page.isascii()
    assert "On curves" not in of_other


def test_a_gap_at_the_start_is_marked_where_the_curve_begins() -> None:
    line = line_of([math.nan, math.nan, 5.0, 1.0, math.nan])
    assert [value_beside(line, point) for point in (0, 3, 4)] == [5.0, 5.0, 1.0]
    assert value_beside(line_of([math.nan] * 3), 0) is None
