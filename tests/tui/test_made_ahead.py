"""Screens that are made before anyone opens them: nothing shows it, and each looks as one that is made when it is opened."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from typing import Any

import pytest
from textual import events
from textual.pilot import Pilot
from textual.widgets import Input

from armada.tui import left_screens
from armada.tui.screens.compare import CompareScreen
from armada.tui.screens.hosts import HostsScreen
from armada.tui.screens.launch import LaunchScreen
from armada.tui.screens.run import RunScreen
from armada.tui.screens.runs import RunsScreen
from armada.tui.screens.view import View
from armada.tui.watcher import Subscription, Watcher
from armada.tui.widgets.table import Table
from tests.tui.conftest import World, drive, screen, shows, until
from tests.tui.test_left_screens import (
    alive,
    as_it_is,
    board_of,
    full,
    go,
    looks_as_a_new_one,
    on_top,
    stands_still,
)
from tests.waiting import pauses

__all__ = ["full"]

PLACES = {"run", "hosts", "sync", "launch", "compare"}


@pytest.fixture(autouse=True)
def ahead(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    assert world  # it turns this off
    monkeypatch.setattr(left_screens, "MAKES_AHEAD", True)
    monkeypatch.setattr(left_screens, "AHEAD_S", 0.01)
    monkeypatch.setattr(left_screens, "REST_S", 0.02)


def made(pilot: Pilot[None]) -> dict[str, View]:
    """The screens that were made, by their places; those that nobody opened have all their widgets."""
    kept = board_of(pilot).left._kept  # noqa: SLF001
    return {place: view for place, view in kept.items() if not view.is_ahead or view._is_left}  # noqa: SLF001


def left_part(pilot: Pilot[None]) -> list[str]:
    """What does not change by itself: right of it are ages."""
    return [line[:36] for line in screen(pilot).splitlines()[1:]]


async def all_made(pilot: Pilot[None]) -> dict[str, View]:
    await shows(pilot, "one-aaaaaa", "two-bbbbbb")
    await until(pilot, lambda: set(made(pilot)) == PLACES and all(view.is_ahead for view in made(pilot).values()))
    return made(pilot)


def test_nothing_shows_that_screens_are_made(full: World, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[Subscription, Any]] = []
    want = Watcher.want

    def note(self: Watcher, wants: Subscription, who: Any = None) -> None:
        asked.append((wants, who))
        want(self, wants, who)

    monkeypatch.setattr(Watcher, "want", note)

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "one-aaaaaa", "two-bbbbbb", "lowest 1")  # the curve comes when it has been read
        await stands_still(pilot)
        before, focused = left_part(pilot), pilot.app.focused
        await all_made(pilot)
        assert left_part(pilot) == before
        assert pilot.app.focused is focused is not None
        assert on_top(pilot).PLACE == "runs"
        assert board_of(pilot).charts["compare"].places == {}  # the letters of runs begin with those that are compared
        assert {who[0].PLACE for _, who in asked} == {"runs"}
        await pilot.press("down")
        assert pilot.app.focused is focused

    drive(full.board(), use)


def test_screens_are_drawn_before_anyone_opens_them(full: World, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: set[int] = set()
    render = Table.render_line

    def note(self: Table, y: int) -> Any:
        drawn.add(id(self))
        return render(self, y)

    monkeypatch.setattr(Table, "render_line", note)

    async def use(pilot: Pilot[None]) -> None:
        ahead = await all_made(pilot)
        await until(pilot, lambda: all(view.size == pilot.app.size for view in ahead.values()))
        hosts, run = ahead["hosts"], ahead["run"]
        assert isinstance(hosts, HostsScreen)
        assert isinstance(run, RunScreen)
        await until(pilot, lambda: id(hosts.table) in drawn)
        await until(pilot, lambda: run.run_id == on_top(pilot).cursor_run is not None)
        await until(pilot, lambda: run.overview.query_one("#facts").size.height > 5)  # what Runs knows of it

    drive(full.board(), use)


def test_nothing_is_made_before_the_first_screen_is_drawn(full: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine the first screen has its widgets later than its first snapshot."""
    make, looks = left_screens.LeftScreens._make_next, 0  # noqa: SLF001
    compose = RunsScreen._on_compose  # noqa: SLF001

    def look(self: left_screens.LeftScreens) -> None:
        nonlocal looks
        looks += 1
        make(self)

    async def late(self: RunsScreen, event: events.Compose) -> None:
        for pause_s in pauses(lambda: "five looks"):
            if looks > 4:
                break
            await asyncio.sleep(pause_s)
        await compose(self, event)

    monkeypatch.setattr(left_screens.LeftScreens, "_make_next", look)
    monkeypatch.setattr(RunsScreen, "_on_compose", late)

    async def use(pilot: Pilot[None]) -> None:
        run = (await all_made(pilot))["run"]
        assert isinstance(run, RunScreen)
        assert run.run_id == on_top(pilot).cursor_run is not None

    drive(full.board(), use)


@pytest.mark.parametrize("place", ["hosts", "sync", "run", "another run", "compare"])
@pytest.mark.parametrize("changes", ["nothing", "theme", "size"])
def test_a_screen_that_was_made_ahead_looks_as_a_new_one(full: World, place: str, changes: str) -> None:
    async def use(pilot: Pilot[None]) -> None:
        ahead = await all_made(pilot)
        await until(
            pilot, lambda: len(board_of(pilot).snapshot.hosts) == 3
        )  # a cursor stays on its host when others come
        if changes == "theme":
            board_of(pilot).choose_theme("armada-light" if pilot.app.theme != "armada-light" else "armada-dark")
        elif changes == "size":
            await pilot.resize_terminal(96, 30)
        if place in ("another run", "compare"):
            await pilot.press("down")  # without a marked run, the one under the cursor is shown
        opened = place.rsplit(maxsplit=1)[-1]
        assert await go(pilot, opened) is ahead[opened]
        assert not ahead[opened].is_ahead
        await looks_as_a_new_one(pilot, opened, await as_it_is(pilot, opened))

    drive(full.board(), use)


def test_compare_is_made_anew_for_other_runs_once_it_was_used(full: World) -> None:
    async def use(pilot: Pilot[None]) -> None:
        ahead = await all_made(pilot)
        await pilot.press("down")
        assert await go(pilot, "compare") is ahead["compare"]
        await shows(pilot, "↑ one-aaaaaa")
        await go(pilot, "runs")
        await pilot.press("up")
        assert await go(pilot, "compare") is not ahead["compare"]
        await until(pilot, lambda: len(alive(pilot, CompareScreen)) == 1)

    drive(full.board(), use)


def test_launch_knows_the_hosts_of_the_moment_at_which_it_is_opened(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.run("one-aaaaaa")
    world.run("two-bbbbbb")
    looked: list[str] = []

    def look() -> list[str]:
        looked.append("folder")
        return ["demo.yaml"]

    monkeypatch.setattr("armada.tui.screens.launch.experiments", look)

    async def use(pilot: Pilot[None]) -> None:
        ahead = await all_made(pilot)
        assert looked == []  # a folder of thousands, on a slow disk, would hold up the first screen
        world.hosts(new={"ssh": "root@192.0.2.9"})
        await until(pilot, lambda: any(host.name == "new" for host in board_of(pilot).snapshot.hosts))
        opened = await go(pilot, "launch")
        assert opened is ahead["launch"]
        assert isinstance(opened, LaunchScreen)
        assert opened.fields["host"].value == ""  # with one host alone it is filled in
        for field, word in {"host": "new", "experiment": "demo.yaml"}.items():
            suggester = opened.fields[field].suggester
            assert suggester is not None
            assert await suggester.get_suggestion(word[:1]) == word
        assert isinstance(pilot.app.focused, Input)

    drive(world.board(), use)


def test_none_is_made_while_keys_are_pressed_or_another_screen_is_open(
    full: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(left_screens, "REST_S", 3600.0)

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "one-aaaaaa", "two-bbbbbb")
        left = board_of(pilot).left
        await until(pilot, lambda: left._importing.ident and not left._importing.is_alive())  # noqa: SLF001
        await pilot.press("down")
        left._make_next()  # noqa: SLF001
        assert made(pilot) == {}
        board_of(pilot).last_input_at = time.monotonic() - 3601.0
        await pilot.app.push_screen(HelpWindow())
        left._make_next()  # noqa: SLF001
        assert made(pilot) == {}
        pilot.app.pop_screen()
        left._make_next()  # noqa: SLF001
        await until(pilot, lambda: set(made(pilot)) == {"run"})

    drive(full.board(), use)


def test_while_another_screen_is_open_nothing_waits_for_its_end_by_looking_again_and_again(
    full: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(left_screens, "REST_S", 3600.0)  # a timer of its own, below
    looks: list[float] = []
    make_next = left_screens.LeftScreens._make_next  # noqa: SLF001

    def look(left: left_screens.LeftScreens) -> None:
        looks.append(time.monotonic())
        make_next(left)

    monkeypatch.setattr(left_screens.LeftScreens, "_make_next", look)

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "one-aaaaaa", "two-bbbbbb")
        board = board_of(pilot)
        left = board.left
        await until(pilot, lambda: left._importing.ident and not left._importing.is_alive())  # noqa: SLF001
        await pilot.app.push_screen(HelpWindow())
        left._ahead = board.set_interval(0.02, left._make_next)  # noqa: SLF001
        await until(pilot, lambda: looks)
        for _ in range(20):
            await pilot.pause(0.02)
        assert len(looks) == 1
        monkeypatch.setattr(left_screens, "REST_S", 0.0)
        pilot.app.pop_screen()
        await until(pilot, lambda: set(made(pilot)) == PLACES)

    drive(full.board(), use)


class HelpWindow(View):
    """Any other screen."""

    PLACE = "help"

    def body(self) -> list[Any]:
        return []

    def wants(self) -> Subscription:
        return Subscription()

    def draw(self, updates: object = ()) -> None:
        pass


def test_a_screen_that_is_opened_while_it_is_made_is_drawn(full: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(left_screens, "REST_S", 3600.0)

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "one-aaaaaa", "two-bbbbbb")
        left = board_of(pilot).left
        await until(pilot, lambda: left._importing.ident and not left._importing.is_alive())  # noqa: SLF001
        board_of(pilot).last_input_at = -3601.0
        for _ in ("run", "hosts", "sync", "launch"):
            left._make_next()  # noqa: SLF001
        for place in ("hosts", "launch"):
            board_of(pilot).action_go(place)  # it has no widgets yet
            await until(pilot, lambda: place == on_top(pilot).PLACE and not on_top(pilot).is_ahead)  # noqa: B023
        await shows(pilot, "quickstart")
        assert len(alive(pilot, HostsScreen)) == len(alive(pilot, LaunchScreen)) == 1
        launch = on_top(pilot)
        assert isinstance(launch, LaunchScreen)
        assert launch.fields["experiment"].suggester is not None

    drive(full.board(), use)


READS = """
import sys
from armada.store.database import Database
from armada.tui import screens
from armada.tui.reading import read_detail
from pathlib import Path
screens.import_all()
before = set(sys.modules)
with Database(Path(sys.argv[1])) as database:
    assert read_detail(database, "lora-aaaaaa") is not None
print(sorted(set(sys.modules) - before))
"""


def test_what_the_first_opening_of_a_run_reads_with_is_imported_before(world: World) -> None:
    world.run("lora-aaaaaa", step=5)
    done = subprocess.run(
        [sys.executable, "-c", READS, str(world.home.store)], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


def test_compare_that_was_made_ahead_begins_with_the_metric_of_the_runs(full: World) -> None:
    for run_id in ("one-aaaaaa", "two-bbbbbb"):
        full.losses(run_id, [0.5, 0.25], name="eval_loss")

    async def use(pilot: Pilot[None]) -> None:
        await all_made(pilot)
        await pilot.press("a", "c")
        await shows(pilot, "eval_loss against step", "best: lowest eval_loss")

    drive(full.board(), use, (160, 48))
