"""What is on the screen fits its size and its theme at once, also if nothing changes in the store."""

from __future__ import annotations

import functools
import time

from textual.color import Color
from textual.pilot import Pilot

from armada.store import runs
from armada.tui.app import Dashboard
from armada.tui.screens.compare import CompareScreen
from armada.tui.screens.run import RunScreen
from armada.tui.screens.runs import RunsScreen
from armada.verdicts.states import Verdict
from tests.tui.conftest import World, drive, lacks, screen, shows, strips, until


def test_rows_that_a_larger_terminal_shows_get_their_curves(world: World) -> None:
    for number in range(20):
        world.run(f"run-{number:02}aaaa", state="succeeded")
        world.losses(f"run-{number:02}aaaa", [3.0, 2.0, 1.0])

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "20 of 20 runs", "█")
        await pilot.resize_terminal(140, 60)
        await until(pilot, lambda: sum("aaaa" in line and "█" in line for line in screen(pilot).splitlines()) == 20)

    drive(world.board(), use, (140, 16))


def test_another_theme_colours_all_lines_and_all_pages_at_once(world: World) -> None:
    world.run("demo-aaaaaa")
    world.losses("demo-aaaaaa", [2.0, 1.0])

    async def use(pilot: Pilot[None]) -> None:
        board = pilot.app
        assert isinstance(board, Dashboard)
        await shows(pilot, "demo-aaaaaa", "· loss")
        for keys in ("c", "2"):  # the other screens have tabs, too
            await pilot.press(keys)
            for name in ("armada-light", "armada-dark"):
                board.choose_theme(name)
                behind = Color.parse(board.theme_variables["background"]).rgb
                await until(pilot, functools.partial(is_ground, pilot, behind))
            await pilot.press("1")

    drive(world.board(), use)


def is_ground(pilot: Pilot[None], behind: tuple[int, ...]) -> bool:
    return grounds(pilot, 1) == {behind}


def grounds(pilot: Pilot[None], line: int) -> set[tuple[int, ...]]:
    """The colours behind the words of a line."""
    found = {style.bgcolor for _, style, _ in strips(pilot.app)[line] if style is not None}
    return {tuple(each.triplet) for each in found if each is not None and each.triplet is not None}


def test_settings_are_shown_again_after_they_were_read_anew(world: World) -> None:
    spec = {"job": {"argv": ["true"]}, "experiment": {"train": {"max_steps": 7}}}
    world.run("demo-aaaaaa", spec=spec)

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        await pilot.press("2", "f")
        await shows(pilot, "train.max_steps")
        shown = pilot.app.screen
        assert isinstance(shown, RunScreen)
        known = shown.snapshot.details.get("demo-aaaaaa")
        assert known is not None
        shown._say_reading()  # noqa: SLF001  # as while another screen's subscription is the newest
        shown.draw()
        seen = await shows(pilot, "train.max_steps")
        assert "reading …" not in seen

    drive(world.board(), use)


def test_a_deferred_drawing_of_a_screen_that_is_hidden_by_then_reads_nothing_for_it(world: World) -> None:
    world.run("demo-aaaaaa")
    board = world.board()

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        board.choose_theme("armada-light")  # drawn after the next refresh
        await pilot.press("2", "f")
        await lacks(pilot, "reading …")
        assert "demo-aaaaaa" in board.snapshot.details
        assert "job.argv" in screen(pilot)

    drive(board, use)


def test_what_is_behind_an_open_window_stays_current_and_the_cursor_stays_on_its_run(world: World) -> None:
    for name in ("one", "two", "six"):
        world.run(f"{name}-aaaaaa", step=3, total_steps=100)
    board = world.board()

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "one-aaaaaa", "two-aaaaaa", "six-aaaaaa")
        first = board.screen
        assert isinstance(first, RunsScreen)
        first.table.place("two-aaaaaa")
        await pilot.press("x")
        await shows(pilot, "Stop 1 run?")
        verdict = Verdict("failed", "oom", "[b]2.1 GiB", 1, 2, "evidence")
        runs.record(world.database, "six-aaaaaa", verdict, ended_at=time.time())
        world.run("new-bbbbbb")
        await shows(pilot, "Stop 1 run?", "▲ 1 needs you", "4 of 4 runs")
        await pilot.press("n")
        words = await lacks(pilot, "Stop 1 run?")
        assert "new-bbbbbb" in words
        assert first.table.cursor == "two-aaaaaa"
        assert next(line for line in words.splitlines() if "▸" in line).count("two-aaaaaa") == 1

    drive(board, use)


def test_points_that_come_while_a_window_is_open_are_in_the_curves(world: World) -> None:
    for name in ("one", "two"):
        world.run(f"{name}-aaaaaa")
        world.losses(f"{name}-aaaaaa", [2.0, 1.0])
    board = world.board()

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "one-aaaaaa", "two-aaaaaa")
        await pilot.press("a", "c")
        await until(pilot, lambda: isinstance(board.screen, CompareScreen) and not board.screen.reading)
        compare = board.screen
        assert isinstance(compare, CompareScreen)
        await pilot.press("7")
        await shows(pilot, "what was started from the dashboard")
        world.losses("one-aaaaaa", [0.75, 0.5])
        await until(pilot, lambda: [len(run.curve or ()) for run in compare.runs if run.row.id == "one-aaaaaa"] == [4])
        await pilot.press("escape")
        world.losses("one-aaaaaa", [0.25])
        await until(pilot, lambda: [len(run.curve or ()) for run in compare.runs if run.row.id == "one-aaaaaa"] == [5])

    drive(board, use)


def test_a_terminal_that_grows_under_an_open_window_shows_all_that_fits(world: World) -> None:
    world.run("demo-aaaaaa")

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        assert "What happened" not in screen(pilot)
        await pilot.press("7")
        await shows(pilot, "what was started from the dashboard")
        await pilot.resize_terminal(160, 48)
        await pilot.press("escape")
        await shows(pilot, "What happened", "Is everything safe?")

    drive(world.board(), use, (80, 24))
