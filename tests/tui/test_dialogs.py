"""Keys that arrive at once, as over a slow link, close one window, and are obeyed in their order."""

from __future__ import annotations

import pytest
from textual import events
from textual.pilot import Pilot
from textual.widgets import Input

from armada.tui.screens.prompt import Prompt
from armada.tui.screens.run import RunScreen
from armada.tui.screens.runs import RunsScreen
from armada.tui.symbols import UNICODE
from tests.tui.conftest import World, drive, shows, until


def at_once(pilot: Pilot[None], *keys: str) -> None:
    """Let keys arrive in one piece: nothing is handled between them."""
    for key in keys:
        pilot.app.post_message(events.Key(key, {"space": " "}.get(key, key if len(key) == 1 else None)))


@pytest.mark.parametrize(
    "opens",
    [("i", "h"), ("t", "arc"), ("C", ""), ("C", "name"), ("V", "mine"), ("ctrl+p", ""), ("ctrl+p", "theme"), ("x", "")],
)
def test_two_enters_at_once_close_one_window(world: World, opens: tuple[str, str]) -> None:
    world.run("demo-aaaaaa")
    key, text = opens

    async def use(pilot: Pilot[None]) -> None:
        board = pilot.app
        await shows(pilot, "demo-aaaaaa")
        await pilot.press(key)
        await until(pilot, lambda: len(board.screen_stack) == 2)
        await pilot.press(*text)
        at_once(pilot, "enter", "enter")
        for _ in range(3):
            await pilot.pause()
        assert isinstance(board.screen_stack[0], RunsScreen)

    drive(world.board(), use)


def test_two_enters_at_once_leave_the_screen_below(world: World) -> None:
    world.run("demo-aaaaaa")

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        await pilot.press("2")
        await until(pilot, lambda: isinstance(pilot.app.screen, RunScreen))
        await pilot.press("i", *"text")
        at_once(pilot, "enter", "enter")
        await until(pilot, lambda: isinstance(pilot.app.screen, RunScreen))
        await pilot.pause()
        assert [type(each) for each in pilot.app.screen_stack] == [RunsScreen, RunScreen]

    drive(world.board(), use)


def test_a_window_that_is_to_close_under_another_one_closes_after_it(world: World) -> None:
    world.run("demo-aaaaaa")

    async def use(pilot: Pilot[None]) -> None:
        board = pilot.app
        await shows(pilot, "demo-aaaaaa")
        below, over = Prompt("below", "", "", UNICODE), Prompt("over", "", "", UNICODE)
        await board.push_screen(below)
        await board.push_screen(over)
        below.dismiss(None)
        await pilot.pause()
        assert board.screen is over
        over.dismiss(None)
        over.dismiss(None)
        await until(pilot, lambda: len(board.screen_stack) == 1)
        assert isinstance(board.screen, RunsScreen)

    drive(world.board(), use)


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        ((*"abcd", "backspace", "backspace", "x"), "abx"),
        ((*"abcd", "left", "left", "y"), "abycd"),
        ((*"ab", "home", "z", "end", "e"), "zabe"),
        ((*"one", "space", *"two", "ctrl+w", "n"), "one n"),
    ],
)
def test_keys_reach_a_field_in_their_order(world: World, keys: tuple[str, ...], text: str) -> None:
    world.run("demo-aaaaaa")

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        await pilot.press("slash")
        field = pilot.app.screen.query_one("#filter", Input)
        await until(pilot, lambda: field.has_focus)
        at_once(pilot, *keys)
        await until(pilot, lambda: field.value == text)

    drive(world.board(), use)
