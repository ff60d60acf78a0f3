"""The keys of lists and texts, in each of the four widgets that have them."""

from __future__ import annotations

from collections.abc import Callable

from textual.pilot import Pilot

from armada.tui.app import Dashboard
from armada.tui.screens.preview_window import PreviewWindow
from armada.tui.screens.runs import RunsScreen
from armada.tui.widgets.log_view import LogView
from tests.tui.conftest import World, drive, shows, until
from tests.tui.test_compare import fill, opened

PAGE = ("pagedown", "pageup", "end", "home", "G", "g")
"""The keys of lists that go far, each after one in the other direction."""


async def goes(pilot: Pilot[None], place: Callable[[], object], *, far: bool = True) -> None:
    """Press each key of a list; each pair goes away from the first place, and back to it."""
    first = place()
    for there, back in (("down", "up"), ("j", "k"), *(zip(PAGE[::2], PAGE[1::2], strict=True) if far else ())):
        await pilot.press(there)
        await until(pilot, lambda: place() != first)
        await pilot.press(back)
        await until(pilot, lambda: place() == first)


def test_the_keys_of_lists_move_the_cursor_of_a_table(world: World) -> None:
    for number in range(60):
        world.run(f"run-{number:02}-aaaaaa", state="succeeded")

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "60 of 60 runs")
        runs = pilot.app.screen
        assert isinstance(runs, RunsScreen)
        await pilot.press("home")
        await goes(pilot, lambda: runs.table.cursor)

    drive(world.board(), use)


def test_the_keys_of_lists_move_the_cursor_of_compared_runs(world: World) -> None:
    fill(world)

    async def use(pilot: Pilot[None]) -> None:
        view = await opened(pilot)
        await goes(pilot, lambda: view.figures.cursor)

    drive(world.board(), use)


def test_the_keys_of_lists_scroll_a_text_and_those_of_search_go_through_it(world: World) -> None:
    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "no daemon")
        board = pilot.app
        assert isinstance(board, Dashboard)
        window = PreviewWindow("Rows", [f"row {number}{' needle' * (number in (50, 150))}" for number in range(200)])
        await board.push_screen(window)
        await shows(pilot, "row 0")
        await goes(pilot, lambda: window.scroll.scroll_offset.y)
        await pilot.press("slash", *"needle", "enter")
        await shows(pilot, "row 50 needle")
        await pilot.press("n")
        await shows(pilot, "row 150 needle")
        await pilot.press("N")
        await shows(pilot, "row 50 needle")

    drive(world.board(), use)


def test_the_keys_of_lists_and_texts_move_a_log(world: World) -> None:
    long = "x" * 300
    world.local_log("demo-aaaaaa", "".join(f"line {number} {long} end\n" for number in range(300)))

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        await pilot.press("l")
        await shows(pilot, "line 299")
        log = pilot.app.focused
        assert isinstance(log, LogView)

        def place() -> tuple[int, int]:
            return log._top, log._left  # noqa: SLF001  # where it is has no public name

        assert not log.wrapping
        await pilot.press("home")
        await shows(pilot, "line 0 ")
        await goes(pilot, place, far=False)
        await pilot.press("pagedown")
        await until(pilot, lambda: place()[0] > 0)
        await pilot.press("pageup")
        await until(pilot, lambda: place()[0] == 0)
        for to_the_end, to_the_start in (("end", "home"), ("G", "g")):
            await pilot.press(to_the_end)
            await until(pilot, lambda: log.following)
            await pilot.press(to_the_start)
            await until(pilot, lambda: not log.following)
        await pilot.press("right")
        await until(pilot, lambda: place()[1] > 0)
        await pilot.press("left")
        await until(pilot, lambda: place()[1] == 0)

    drive(world.board(), use)
