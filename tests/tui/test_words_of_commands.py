"""The words after a command: the dashboard's own obey or refuse them, and what cannot be right is refused before Enter."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.widgets import Input

from armada.store import sweeps
from armada.tui import acts
from armada.tui.app import Dashboard
from armada.tui.operations import Ended
from armada.tui.screens.add_host import AddHost
from armada.tui.screens.hosts import HostsScreen
from armada.tui.screens.launch import LaunchScreen
from armada.tui.screens.output import OutputWindow
from armada.tui.screens.question import Question
from tests.tui.conftest import Use, World, drive, lacks, said, screen, shows, until
from tests.tui.test_command_line import opened, typed
from tests.tui.test_pins import the_list


@pytest.fixture
def some(world: World) -> World:
    """Two runs, and a sweep of one whose id does not begin with the sweep's name."""
    world.hosts(far={"ssh": "root@192.0.2.1"})
    world.run("one-aaaaaa", state="succeeded", host="far")
    world.run("two-bbbbbb", host="far")
    world.run("two-cccccc", host="far")
    spec = {"job": {"argv": ["true"]}, "experiment": {}, "sweep": {"id": "lr-x7", "cell": 1}}
    world.run("cell-dddddd", spec=spec, host="far")
    sweeps.insert(world.database, name="bare-x8", title="bare", experiment=None, launch_key="1", settings={})
    return world


async def on_runs(pilot: Pilot[None]) -> None:
    await shows(pilot, "one-aaaaaa", "two-bbbbbb")
    await until(pilot, lambda: the_list(pilot).snapshot.are_hosts_read)


def test_pin_takes_the_run_that_is_named(some: World) -> None:
    async def use(pilot: Pilot[None]) -> None:
        await on_runs(pilot)
        the_list(pilot).table.place("one-aaaaaa")
        await typed(pilot, "pin two-b")
        await shows(pilot, "→ pin two-b")
        await pilot.press("enter")
        await until(pilot, lambda: the_list(pilot).pins.ids == {"two-bbbbbb"})
        await typed(pilot, "pin")
        await shows(pilot, "→ pin one-aaaaaa")
        await pilot.press("enter")
        await until(pilot, lambda: the_list(pilot).pins.ids == {"one-aaaaaa", "two-bbbbbb"})
        await typed(pilot, "pin tw", "tab")
        assert pilot.app.screen.query_one(Input).value in ("pin two-bbbbbb ", "pin two-cccccc ")

    drive(some.board(), use)


REFUSED = [
    ("pin nosuch", "no run's id begins with 'nosuch'"),
    ("pin --off", "pin has no option --off"),
    ("undo 5", "undo takes no argument: leave out '5'"),
    ("tour x", "tour takes no argument: leave out 'x'"),
    ("quit now", "quit takes no argument: leave out 'now'"),
    ("history --help", "history: Show what the dashboard started"),
    ("qiut", "(did you mean quit?)"),
    ("stop nosuch", "no run's id begins with 'nosuch'"),
    ("resume nosuch", "no run's id begins with 'nosuch'"),
    ("rm one-aaaaaa nosuch", "no run's id begins with 'nosuch'"),
    ("tag --add x nosuch", "no run's id begins with 'nosuch'"),
    ("stop two", "'two' matches several run ids: two-bbbbbb, two-cccccc"),
    ("stop lr-x7", "'lr-x7' is a sweep, not a run (sweep stop lr-x7)"),
    ("show lr-x7", "'lr-x7' is a sweep, not a run (sweep show lr-x7)"),
    ("rm lr-x7", "'lr-x7' is a sweep, not a run (sweep show lr-x7 lists its runs)"),
    ("sweep stop nosuch", "no sweep's name begins with 'nosuch' (Tab completes it)"),
    ("sweep retry one-aaaaaa", "'one-aaaaaa' is a run, not a sweep; it belongs to no sweep"),
    ("ssh nosuch", "no host and no run is called 'nosuch'"),
    ("hosts rm nosuch", "no host is called 'nosuch'"),
    ("cp", "cp needs SOURCE and DESTINATION"),
    ("hosts add new", "hosts add needs TARGET"),
    ("launch --host=far", "launch needs EXPERIMENT"),
    ("launch exp.yaml --host", "launch: --host needs a value: NAME"),
    ("stop --grace", "stop: --grace needs a value"),
    ("stop two-b --nothing 7", "stop has no option --nothing (stop --help)"),
    ("stop two-b --grce 7", "stop has no option --grce (did you mean --grace?)"),
]
STARTED = [
    ("stop two-b two-c", "Stop 2 runs?"),
    ("stop TWO-B", "Stop 1 run?"),
    ("stop --grace 0 two-b", "armada stop --grace 0 two-b"),
    ("stop --where is:active", "Stop 3 runs?"),
    ("hosts rm far", "armada hosts rm far"),
    ("sweep stop lr", "armada sweep stop lr"),
    ("sweep stop bare", "armada sweep stop bare"),  # none of its runs exists yet
]


def test_what_cannot_be_right_is_refused_with_a_sentence(some: World) -> None:
    async def use(pilot: Pilot[None]) -> None:
        await on_runs(pilot)
        field = await opened(pilot)
        for text, words in REFUSED:
            field.value = text
            await pilot.pause()
            await pilot.press("enter")
            await shows(pilot, words)
            assert pilot.app.screen is field.screen, text
        assert not the_list(pilot).pins.ids

    drive(some.board(), use, (160, 40))
    assert acts.newest(some.home) == []


def test_beginnings_of_ids_filters_and_options_still_work(some: World) -> None:
    async def use(pilot: Pilot[None]) -> None:
        await on_runs(pilot)
        for text, words in STARTED:
            await typed(pilot, text, "enter")
            await until(pilot, lambda: isinstance(pilot.app.screen, Question))
            await shows(pilot, words)
            await pilot.press("escape")
            await until(pilot, lambda: len(pilot.app.screen_stack) == 1)

    drive(some.board(), use)


def test_a_group_and_a_note_are_no_runs(some: World) -> None:
    async def use(pilot: Pilot[None]) -> None:
        await on_runs(pilot)
        the_list(pilot).table.place("one-aaaaaa")
        for text in ("group arc", "group two-b arc", "note new", "group --where loss>9 arc"):
            (await opened(pilot)).value = text
            await shows(pilot, f"→ armada {text.split()[0]}")
            await pilot.press("escape")
            await lacks(pilot, "Command")

    drive(some.board(), use)


def test_launch_and_hosts_add_without_arguments_open_their_forms(some: World) -> None:
    async def use(pilot: Pilot[None]) -> None:
        await on_runs(pilot)
        await typed(pilot, "launch")
        await shows(pilot, "→ opens Launch")
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(pilot.app.screen, LaunchScreen))
        await pilot.press("escape")
        await on_runs(pilot)
        await typed(pilot, "hosts add")
        await shows(pilot, "→ opens the form for a new host")
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(pilot.app.screen, AddHost))
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(pilot.app.screen, HostsScreen))

    drive(some.board(), use)


def drive_with_notices(board: Dashboard, use: Use, size: tuple[int, int]) -> None:
    async def go() -> None:
        async with board.run_test(size=size, notifications=True) as pilot:
            await use(pilot)

    asyncio.run(go())


def test_notices_go_when_a_window_or_the_command_line_opens(some: World) -> None:
    async def use(pilot: Pilot[None]) -> None:
        await on_runs(pilot)
        for keys in (("colon",), ("question_mark",), ("7",)):
            pilot.app.notify("an old notice", timeout=600)
            await shows(pilot, "an old notice")
            await pilot.press(*keys)
            await until(pilot, lambda: len(pilot.app.screen_stack) == 2)
            await lacks(pilot, "an old notice")
            await pilot.press("escape")
            await until(pilot, lambda: len(pilot.app.screen_stack) == 1)

    drive_with_notices(some.board(), use, (80, 24))


def test_the_number_of_runs_that_a_window_leaves_out_is_still_said(world: World) -> None:
    for number in range(21):
        world.run(f"r{number:02}-aaaaaa", state="succeeded")

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "r20-aaaaaa")
        await pilot.press("a")
        await typed(pilot, "show", "enter")
        await until(pilot, lambda: "21 runs are selected; this shows the first 20" in said(pilot))
        assert isinstance(pilot.app.screen, OutputWindow)
        await until(pilot, lambda: "21 runs are selected" in screen(pilot))

    drive_with_notices(world.board(), use, (140, 40))


def test_an_end_names_a_run_once_and_no_file() -> None:
    log = Path("/home/me/1795867732.339-star.log")
    name = "a-very-long-name-of-a-run-qcapr3"
    assert Ended(f"star {name}", 0, f"{name}: starred", log).words == f"star {name} done: starred"
    failed = Ended("launch x.yaml", 2, "x.yaml: there is no such file", log).words
    assert failed == "launch x.yaml ended with 2: there is no such file\n(7 shows its output)"
    assert Ended("pull", 1, "not started: no room", log.parent).words == "pull: not started: no room"
    assert Ended("ps", 0, "", log).words == "ps done"
    launched = Ended("launch long.yaml on local", 0, "launched   long-9wqnyx on local", log)
    assert launched.words == "launch long.yaml on local done: long-9wqnyx"
    plain = Ended("launch long.yaml", 0, "launched   long-9wqnyx on local, pid 7", log)
    assert plain.words == "launch long.yaml done: long-9wqnyx on local, pid 7"
