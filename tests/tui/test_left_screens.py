"""Screens that were left are as they were, and as new ones would be."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest
from textual.pilot import Pilot

from armada.store import hosts, telemetry
from armada.tui import left_screens
from armada.tui.app import Dashboard
from armada.tui.screens.compare import CompareScreen
from armada.tui.screens.hosts import HostsScreen
from armada.tui.screens.launch import LaunchScreen
from armada.tui.screens.run import RunScreen
from armada.tui.screens.view import View
from armada.tui.watcher import Subscription, Watcher
from armada.tui.widgets.chart import Chart
from armada.tui.widgets.chart_plane import Line
from armada.tui.widgets.field import Field
from armada.tui.widgets.gpu_chart import GpuChart
from tests.tui.conftest import World, drive, screen, shows, strips, until

KEYS = {"hosts": "3", "sync": "4", "launch": "5", "compare": "6", "run": "2"}


@pytest.fixture
def full(world: World) -> World:
    world.hosts(box={"ssh": "root@192.0.2.1"}, far={"ssh": "root@192.0.2.2"})
    for name in ("one-aaaaaa", "two-bbbbbb"):
        world.run(name, state="succeeded", step=3, total_steps=3)
        world.losses(name, [3.0, 2.0, 1.0])
        world.checkpoint(name, 3, home=name == "one-aaaaaa")
    hosts.record_facts(world.database, "far", {"gpus": []})
    return world


def board_of(pilot: Pilot[None]) -> Dashboard:
    return cast("Dashboard", pilot.app)


def on_top(pilot: Pilot[None]) -> View:
    assert isinstance(pilot.app.screen, View)
    return pilot.app.screen


def alive(pilot: Pilot[None], kind: type[View]) -> list[View]:
    """Every screen of a kind that Textual still has."""
    return [each for each in pilot.app._registry if isinstance(each, kind)]  # noqa: SLF001  # no public name for it


async def go(pilot: Pilot[None], place: str) -> View:
    await pilot.press(KEYS.get(place, "1"))
    await until(pilot, lambda: isinstance(pilot.app.screen, View) and place == on_top(pilot).PLACE)
    return on_top(pilot)


def test_the_cursor_and_what_was_unfolded_stay(full: World) -> None:
    async def use(pilot: Pilot[None]) -> None:
        first = await go(pilot, "hosts")
        assert isinstance(first, HostsScreen)
        await until(pilot, lambda: first.table.row_count > 2)
        first.table.place("far")
        await pilot.press("enter")
        await shows(pilot, "root@192.0.2.2")
        await go(pilot, "sync")
        await go(pilot, "runs")
        assert await go(pilot, "hosts") is first
        assert first.table.cursor == "far"
        await shows(pilot, "root@192.0.2.2")
        assert first.table.has_focus

    drive(full.board(), use)


def test_a_left_screen_shows_what_came_meanwhile(full: World) -> None:
    async def use(pilot: Pilot[None]) -> None:
        await go(pilot, "sync")
        await shows(pilot, "two-bbbbbb")
        await go(pilot, "hosts")
        full.run("new-cccccc", state="succeeded")
        full.checkpoint("new-cccccc", 7, home=False)
        full.hosts(box={"ssh": "root@192.0.2.1"}, third={"ssh": "root@192.0.2.3"})
        await shows(pilot, "third")
        await go(pilot, "sync")
        await shows(pilot, "new-cccccc")

    drive(full.board(), use)


def test_a_run_is_as_it_was_left_and_another_run_takes_its_place(full: World) -> None:
    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "one-aaaaaa", "two-bbbbbb")
        first = await go(pilot, "run")
        assert isinstance(first, RunScreen)
        await pilot.press("tab")
        shown = first.shown
        assert shown != "overview"
        await go(pilot, "runs")
        assert await go(pilot, "run") is first
        assert first.shown == shown
        await pilot.press("escape", "enter")  # a run is opened from the list at its first page
        await until(pilot, lambda: pilot.app.screen is first)
        assert first.shown == "overview"
        await shows(pilot, "succeeded")
        before = first.run_id
        await pilot.press("escape", "down", "enter")
        await until(pilot, lambda: first.run_id != before and pilot.app.screen is first)
        await shows(pilot, first.run_id)
        assert before not in screen(pilot)
        assert alive(pilot, RunScreen) == [first]

    drive(full.board(), use)


def two_with_logs(world: World) -> None:
    """Two runs of this machine that differ in everything that a run's pages show."""
    for name, count in (("here-cccccc", 400), ("here-dddddd", 300)):
        settings = {"lr": count / 1e6, "name": name, **{f"setting_{number}": number for number in range(60)}}
        world.run(
            name,
            host="local",
            state="succeeded",
            step=count,
            total_steps=count,
            spec={"job": {"argv": ["true"]}, "experiment": settings},
        )
        world.losses(name, [float(count - step) for step in range(count)])
        world.losses(name, [step / count for step in range(count)], name=f"own_{name}")
        for step in range(count // 10, count, count // 10):
            world.checkpoint(name, step, home=False)
        log = world.home.local_root / "runs" / name / "output.log"
        log.parent.mkdir(parents=True)
        log.write_text("".join(f"[rank{line % 4}]: {name} wrote line {line}{' on' * 80}\n" for line in range(count)))


async def use_well(pilot: Pilot[None]) -> None:
    """Leave traces on every page of the open run: part of a curve, a place, a word and a rank in its log, and more."""
    run = on_top(pilot)
    assert isinstance(run, RunScreen)
    await pilot.press("c", "m")
    await until(pilot, lambda: any(chart.has_points for chart in run.wall.query(Chart)))
    await pilot.press("plus", "comma", "comma", "h")
    await until(pilot, lambda: run.checkpoints.row_count > 3)
    await pilot.press("G", "slash", *"360", "enter", "e", "G", "f", "G", "d")
    await until(pilot, lambda: pilot.app.screen is not run)
    await pilot.press("enter")
    await until(pilot, lambda: run.other is not None and pilot.app.screen is run)
    await pilot.press("l", "r")
    await until(pilot, lambda: pilot.app.screen is not run)
    await pilot.press("down", "enter")
    await until(pilot, lambda: pilot.app.screen is run)
    await pilot.press("W", "slash", *"line 8", "enter")
    await until(pilot, lambda: run.log_view.word == "line 8" and not run.log_view.following)
    await pilot.press("slash", *"half a wo")


async def pages_of(pilot: Pilot[None], run_id: str, like: dict[str, object] | None = None) -> dict[str, object]:
    """Every page of a run, once it is complete; or once it is as it was before."""
    found: dict[str, object] = {}
    board_of(pilot).open_run(run_id)
    await until(pilot, lambda: isinstance(pilot.app.screen, RunScreen) and pilot.app.screen.run_id == run_id)
    for page, words in {
        "overview": ("succeeded", "lowest 1", "command "),
        "charts": ("lowest 1", "highest"),
        "log": ("wrote line 299",),
        "checkpoints": ("270", "30"),
        "events": ("none yet",),
        "samples": ("asks for none",),
        "config": ("lr",),
    }.items():
        await pilot.press(
            {
                "overview": "o",
                "charts": "c",
                "log": "l",
                "checkpoints": "h",
                "samples": "a",
                "events": "e",
                "config": "f",
            }[page]
        )
        await shows(pilot, run_id, *words)
        if like is None:
            found[page] = await stands_still(pilot)
        else:
            await until(pilot, lambda: drawn(pilot) == like[page])  # noqa: B023  # it is asked before the next page
    return found


def test_a_run_that_takes_the_place_of_another_looks_as_on_a_new_screen(full: World) -> None:
    two_with_logs(full)

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "here-cccccc", "here-dddddd")
        board_of(pilot).open_run("here-cccccc")
        await until(pilot, lambda: isinstance(pilot.app.screen, RunScreen))
        left = on_top(pilot)
        await use_well(pilot)
        board_of(pilot).action_go("runs")
        await until(pilot, lambda: on_top(pilot).PLACE == "runs")
        turned = await pages_of(pilot, "here-dddddd")
        assert pilot.app.screen is left
        board_of(pilot).action_go("runs")
        await until(pilot, lambda: on_top(pilot).PLACE == "runs")
        board_of(pilot).left.forget("run")
        await pages_of(pilot, "here-dddddd", like=turned)
        assert pilot.app.screen is not left

    drive(full.board(), use)


def test_a_run_that_is_no_longer_there_shows_nothing_of_the_one_before(full: World) -> None:
    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "one-aaaaaa", "two-bbbbbb")
        await go(pilot, "run")
        await shows(pilot, "lowest 1", "checkpoints  ")
        board_of(pilot).action_go("runs")
        await until(pilot, lambda: on_top(pilot).PLACE == "runs")
        board_of(pilot).open_run("gone-cccccc")
        await shows(pilot, "gone-cccccc is no longer in the store")
        assert not any(words in screen(pilot) for words in ("lowest", "2.1 GB"))
        assert "aaaaaa" not in screen(pilot)
        assert "bbbbbb" not in screen(pilot)

    drive(full.board(), use)


def test_the_gpus_of_a_host_are_drawn_again_only_if_something_came(
    full: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    moments = [time.time() - 600 + 10 * number for number in range(60)]
    telemetry.record(full.database, "far", [telemetry.Point(0, at, 20.0, 1 << 30, 300.0, 60.0) for at in moments])
    drawn_of: list[int] = []
    show = GpuChart.show_gpus

    def noted(self: GpuChart, title: str, gpus: Sequence[Line], *rest: Any) -> None:
        drawn_of.append(len(gpus))
        show(self, title, gpus, *rest)

    monkeypatch.setattr(GpuChart, "show_gpus", noted)

    async def use(pilot: Pilot[None]) -> None:
        screen = await go(pilot, "hosts")
        assert isinstance(screen, HostsScreen)
        await until(pilot, lambda: screen.table.row_count > 2)
        screen.table.place("far")
        await shows(pilot, "far · power W, 15 m", "300")
        await go(pilot, "runs")
        full.run("three-cccccc")  # the next snapshot is for Runs, which shows nothing of this host
        await until(pilot, lambda: not any(host.history for host in board_of(pilot).snapshot.hosts))
        drawn_of.clear()
        await go(pilot, "hosts")
        await until(pilot, lambda: any(host.history for host in screen.snapshot.hosts))
        await shows(pilot, "far · power W, 15 m", "300")
        assert not drawn_of
        await go(pilot, "runs")
        await until(pilot, lambda: not any(host.history for host in board_of(pilot).snapshot.hosts))
        with full.database.transaction() as connection:
            connection.execute("DELETE FROM telemetry")
        await go(pilot, "hosts")
        await shows(pilot, "far has no GPU")

    drive(full.board(), use, (160, 48))


def test_nothing_follows_a_log_that_cannot_be_seen(full: World) -> None:
    full.run("far-cccccc", host="far")

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "far-cccccc")
        board_of(pilot).open_run("far-cccccc", "log")
        await until(pilot, lambda: isinstance(pilot.app.screen, RunScreen))
        run = on_top(pilot)
        assert isinstance(run, RunScreen)
        await until(pilot, lambda: run._follower is not None)  # noqa: SLF001
        await pilot.press("question_mark")
        await until(pilot, lambda: pilot.app.screen is not run)
        assert run._follower is not None  # noqa: SLF001  # a window is over it
        await pilot.press("escape")
        await until(pilot, lambda: pilot.app.screen is run)
        await go(pilot, "runs")
        await until(pilot, lambda: run._follower is None)  # noqa: SLF001
        await go(pilot, "run")
        await until(pilot, lambda: run._follower is not None)  # noqa: SLF001

    drive(full.board(), use)


def test_launch_keeps_what_was_typed_and_asks_anew(full: World) -> None:
    async def use(pilot: Pilot[None]) -> None:
        first = await go(pilot, "launch")
        assert isinstance(first, LaunchScreen)
        first.fields["experiment"].value = "quickstart"
        first.fields["host"].value = "box"
        await until(pilot, lambda: first.asked is not None or first.plans.hosts or first.plans.error)
        board_of(pilot).action_go("hosts")
        await until(pilot, lambda: on_top(pilot).PLACE == "hosts")
        board_of(pilot).action_go("launch")
        await until(pilot, lambda: pilot.app.screen is first)
        assert (first.experiment, first.fields["host"].value) == ("quickstart", "box")
        await until(pilot, lambda: first.asked is None)  # what was planned is not believed
        await until(pilot, lambda: first.asked is not None or first.plans.hosts or first.plans.error)
        first.board.open_launch("one-aaaaaa")
        await until(pilot, lambda: isinstance(pilot.app.screen, LaunchScreen) and pilot.app.screen is not first)
        await until(pilot, lambda: len(alive(pilot, LaunchScreen)) == 1)

    drive(full.board(), use)


def test_compare_is_the_same_for_the_same_runs(full: World) -> None:
    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "one-aaaaaa", "two-bbbbbb")
        await pilot.press("space", "down", "space")
        first = await go(pilot, "compare")
        assert isinstance(first, CompareScreen)
        await go(pilot, "runs")
        assert await go(pilot, "compare") is first
        await go(pilot, "runs")
        await pilot.press("space")
        assert await go(pilot, "compare") is not first
        await until(pilot, lambda: len(alive(pilot, CompareScreen)) == 1)

    drive(full.board(), use)


AGE = re.compile(r"\d+ ?[smh](\d\d ?[smh])?")


def drawn(pilot: Pilot[None]) -> list[list[tuple[str, str]]]:
    """Every word on the screen but the first line, in its colours; all ages are one."""
    return [
        [
            (" ".join(AGE.sub("0 s", text).replace("now", "0 s ago").split()), str(style))
            for text, style, _ in strip
            if text.strip()
        ]
        for strip in strips(pilot.app)[1:]
    ]


COMPLETE = {
    "hosts": ("no GPU", "local"),
    "sync": ("only there", "not planned", "disk at home"),
    "run": ("succeeded", "lowest 1"),
    "compare": ("succeeded", "lowest 1"),
}


async def as_it_is(pilot: Pilot[None], place: str) -> list[list[tuple[str, str]]]:
    """The screen of a place, complete and with the cursor on its first row."""
    await pilot.press("g")
    await shows(pilot, *COMPLETE[place])
    return await stands_still(pilot)


async def stands_still(pilot: Pilot[None]) -> list[list[tuple[str, str]]]:
    """What is on the screen once all that it asks for has come and it is the same four times."""
    seen: list[list[list[tuple[str, str]]]] = []

    def is_still() -> bool:
        top = on_top(pilot)
        if top.snapshot.answers != (top.wants(), top.asks_as):
            seen.clear()
            return False
        seen.append(drawn(pilot))
        return len(seen) > 3 and all(each == seen[-1] for each in seen[-4:])

    await until(pilot, is_still)
    return seen[-1]


async def looks_as_a_new_one(pilot: Pilot[None], place: str, kept: list[list[tuple[str, str]]]) -> None:
    """Open the screen of a place once more, made anew: it shows the same as the one on top."""
    former = on_top(pilot)
    await go(pilot, "runs")
    board_of(pilot).left.forget(place)
    assert await go(pilot, place) is not former
    await shows(pilot, *COMPLETE[place])
    await pilot.press("g")
    await until(pilot, lambda: drawn(pilot) == kept)


@pytest.mark.parametrize("place", ["hosts", "sync", "run", "compare"])
@pytest.mark.parametrize("changes", ["theme", "size"])
def test_a_left_screen_looks_as_a_new_one_does(full: World, place: str, changes: str) -> None:
    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "one-aaaaaa", "two-bbbbbb")
        left = await go(pilot, place)
        before = await as_it_is(pilot, place)
        await go(pilot, "runs")
        if changes == "theme":
            board_of(pilot).choose_theme("armada-light" if pilot.app.theme != "armada-light" else "armada-dark")
        else:
            await pilot.resize_terminal(96, 30)
        await pilot.pause()
        assert await go(pilot, place) is left
        kept = await as_it_is(pilot, place)
        assert kept != before
        await looks_as_a_new_one(pilot, place, kept)

    drive(full.board(), use)


def test_keys_that_come_faster_than_screens_leave_one_of_each(full: World) -> None:
    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "one-aaaaaa", "two-bbbbbb")
        for _ in range(3):
            await pilot.press("2", "3", "4", "1", "3", "6", "1", "down", "2", "6", "4", "2", "1", "up", "enter", "1")
        await go(pilot, "hosts")
        await pilot.pause(0.2)
        for kind in (RunScreen, HostsScreen, CompareScreen):
            assert len(alive(pilot, kind)) <= 1, kind

    drive(full.board(), use)


def test_a_screen_that_is_opened_again_asks_anew_for_what_may_have_come_meanwhile(
    full: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between two readings of the store a screen may be left, turned over and turned back: its curves are gone then."""
    asked: list[tuple[frozenset[tuple[str, str]], object]] = []
    want = Watcher.want

    def note(self: Watcher, wants: Subscription, who: object = None) -> None:
        asked.append((wants.curves, who))
        want(self, wants, who)

    monkeypatch.setattr(Watcher, "want", note)

    async def use(pilot: Pilot[None]) -> None:
        tokens: list[set[object]] = []
        await shows(pilot, "one-aaaaaa", "two-bbbbbb")
        for key in ("", "j", "k"):
            await go(pilot, "runs")
            await pilot.press(*key)
            asked.clear()
            await go(pilot, "run")
            await until(pilot, lambda: any(curves for curves, _ in asked))
            tokens.append({who for curves, who in asked if curves})
        assert not tokens[0] & tokens[2]
        assert not tokens[0] & tokens[1]
        await shows(pilot, "lowest 1")

    drive(full.board(), use)


def test_all_screens_are_imported_soon_after_the_first_is_drawn(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    imported: list[str] = []
    monkeypatch.setattr(left_screens, "AHEAD_S", 0.01)
    monkeypatch.setattr("armada.tui.screens.import_all", lambda: imported.append(threading.current_thread().name))
    world.run("demo-aaaaaa")

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        await until(pilot, lambda: imported == ["screens"])

    drive(world.board(), use)


def test_what_is_imported_ahead_is_what_screens_need() -> None:
    code = "from armada.tui.screens import import_all; import_all(); import sys; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=Path(__file__).parents[2]
    )
    places = ("run", "hosts", "sync", "launch", "compare")
    assert {f"armada.tui.screens.{place}" for place in places} <= set(done.stdout.split())


def test_a_field_on_a_screen_that_was_left_does_not_wake_the_program_to_blink(full: World) -> None:
    async def use(pilot: Pilot[None]) -> None:
        launching = await go(pilot, "launch")
        await until(pilot, lambda: isinstance(launching.focused, Field))
        timer = cast("Field", launching.focused)._blink_timer  # noqa: SLF001  # Textual's
        assert timer is not None
        await until(pilot, timer._active.is_set)  # noqa: SLF001
        board_of(pilot).action_go("runs")
        await until(pilot, lambda: on_top(pilot).PLACE == "runs" and not timer._active.is_set())  # noqa: SLF001
        assert await go(pilot, "launch") is launching
        await until(pilot, timer._active.is_set)  # noqa: SLF001

    drive(full.board(), use)
