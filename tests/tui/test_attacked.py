"""What an attacker of the dashboard found: texts without end, numbers without end, files and disks that others change."""

from __future__ import annotations

import json
import math
import shutil
import time
from collections import namedtuple
from types import SimpleNamespace
from typing import Any

import pytest
from textual.pilot import Pilot

from armada.daemon import status
from armada.errors import UsageError
from armada.filters.trouble import copies, trouble
from armada.store import runs
from armada.tui import operations, ticks, views
from armada.tui.commands.checks import check_options
from armada.tui.commands.registry import Command, Option, Word
from armada.tui.commands.typed import Typed
from armada.tui.filtering import holds
from armada.tui.screens import saved_views
from armada.tui.screens.prompt import MOST
from armada.tui.undo import Changes
from armada.tui.widgets.chart import Chart
from armada.units import clock
from tests.tui.conftest import World, drive, lacks, said, screen, shows, until


def test_a_text_that_fits_into_no_command_stays_in_its_field(world: World) -> None:
    world.run("demo-aaaaaa")

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        await pilot.press("i")
        field = pilot.app.screen.query_one("Input")
        field.value = "x" * (MOST + 1)  # type: ignore[attr-defined]  # it is an Input
        await pilot.press("enter")
        await until(pilot, lambda: f"the text has {MOST + 1:,} characters; the most is {MOST:,}" in said(pilot))
        assert len(field.value) == MOST + 1  # type: ignore[attr-defined]

    drive(world.board(), use)


def test_a_command_that_cannot_be_started_is_told_and_leaves_no_file(world: World) -> None:
    told: list[operations.Ended] = []
    assert operations.start(world.home, "note demo", ["note", "demo", "x" * 400_000], told.append) is None
    assert [each.words for each in told] == ["note demo: not started: Argument list too long"]
    assert not list((world.home.state / "dashboard").rglob("*note*"))


@pytest.mark.parametrize(
    "expression", ["^(m+)+x$", "(m|mm)*$x", "m*m*m*x$", "(?:m*)+$x", "^" + "m?" * 30 + "m" * 30 + "$x"]
)
def test_an_expression_that_would_search_for_minutes_is_taken_for_its_letters(expression: str) -> None:
    assert not holds(expression)("m" * 300)
    assert holds(expression)(f"a {expression} b")


@pytest.mark.parametrize(
    ("expression", "name"),
    [
        ("^eval_", "eval_loss"),
        ("loss$", "eval_loss"),
        ("q|k", "ak"),
        (".*a.*b.*", "xaxbx"),
        (r"^l[*+?]{1}", "l+"),
        ("*", "a*"),
    ],
)
def test_usual_expressions_are_expressions(expression: str, name: str) -> None:
    assert holds(expression)(name)


def test_a_logarithmic_axis_ends_above_the_largest_number(world: World) -> None:
    assert (ticks.log_figures([2, 320]), ticks.linear(320.0)) == (["100", "1e320"], math.inf)
    world.run("demo-aaaaaa")
    world.losses("demo-aaaaaa", [1.0, 1e308, 1.7976931348623157e308, 2.0])

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        await pilot.press("2", "c", "L")
        await until(pilot, lambda: any(chart.logarithmic and chart.lines for chart in pilot.app.screen.query(Chart)))
        await shows(pilot, "e+3")
        await pilot.press("comma")
        assert screen(pilot)

    drive(world.board(), use)


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan, 10**400, "soon"])
def test_a_status_without_a_time_is_none(world: World, value: object) -> None:
    good = status.Status(1, None, None, "1", True, time.time(), time.time(), {}, ())
    world.home.daemon.mkdir(parents=True)
    status.write(world.home, good)
    assert status.read(world.home) is not None
    for name in ("tick_at", "started_at"):
        text = json.loads(status.status_file(world.home).read_text())
        status.status_file(world.home).write_text(json.dumps({**text, name: value}))
        assert status.read(world.home) is None


def test_a_view_that_another_dashboard_replaced_is_not_undone(world: World) -> None:
    heard: list[str] = []
    board: Any = SimpleNamespace(
        home=world.home, symbols=SimpleNamespace(text=str), notify=lambda words, **_: heard.append(words)
    )
    changes, mine, theirs = Changes(world.home), views.SavedView("mine"), views.SavedView("theirs")
    views.save(world.home, "same", mine)
    saved_views._remember(board, changes, "same", None, mine)  # noqa: SLF001  # what a save remembers
    views.save(world.home, "same", theirs)
    changes.undo()
    assert views.load(world.home)["same"] == theirs
    assert heard == ["view same stays: another dashboard has changed it since"]
    views.save(world.home, "same", mine)
    saved_views._remember(board, changes, "same", None, mine)  # noqa: SLF001
    changes.undo()
    assert "same" not in views.load(world.home)


def test_a_full_disk_is_said_on_every_screen(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = namedtuple("usage", "total used free")  # as shutil's own
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(10**9, 10**9, 0))
    world.run("demo-aaaaaa")

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa", "is full: what you do here is not kept")
        monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(10**9, 0, 10**9))
        await lacks(pilot, "is full")

    drive(world.board(), use)


def test_pages_of_a_run_that_is_gone_say_so(world: World) -> None:
    world.run("demo-aaaaaa")

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        await pilot.press("2", "a")
        await shows(pilot, "samples")
        runs.delete(world.database, "demo-aaaaaa")
        await shows(pilot, "demo-aaaaaa is no longer in the store")
        await pilot.press("h")
        await shows(pilot, "demo-aaaaaa is no longer in the store")

    drive(world.board(), use)


def test_an_option_that_a_command_does_not_have_is_refused_before_a_question() -> None:
    stop = Command(("stop",), words=(Word("RUN", "runs", "*"),), options=(Option(("--grace",), value=Word("S")),))
    typed = Typed(("stop", "--grce"), stop, (), frozenset({"--grce"}))
    with pytest.raises(UsageError, match="stop has no option --grce") as caught:
        check_options(typed)
    assert caught.value.hint == "did you mean --grace?"
    for flags in ({"--grace"}, {"--help"}, {"--"}, {"-x"}):
        check_options(Typed(("stop",), stop, (), frozenset(flags)))
    passes_on = Command(("exec",), words=(Word("COMMAND", None, "..."),), options=stop.options)
    check_options(Typed(("exec",), passes_on, (), frozenset({"--nosuch"})))


def test_since_when_a_host_is_silent_has_its_day(world: World) -> None:
    now = time.mktime((2026, 11, 25, 12, 0, 0, 0, 0, -1))
    told = [clock(now - age, now) for age in (0.0, 3 * 86_400.0, 30 * 86_400.0)]
    assert told == ["12:00", "Sun 12:00", "2026-10-26"]
    assert clock(1e300, now) == "?"
    world.run("demo-aaaaaa")
    run = runs.find(world.database, "demo-aaaaaa")._replace(unreachable_since=time.time() - 3 * 86_400)
    found = trouble(run, copies(None, 0), urgent=True)
    assert found is not None
    day = time.strftime("%a ", time.localtime(time.time() - 3 * 86_400))
    assert f"unreachable since {day}" in found.words
