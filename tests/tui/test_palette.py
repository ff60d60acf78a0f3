"""The palette: it finds actions and commands by their names."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from textual.pilot import Pilot
from textual.widgets import Input

from armada.tui.operations import Answer
from armada.tui.screens.command_line import CommandLine
from armada.tui.screens.history import HistoryWindow
from armada.tui.screens.palette import Palette
from tests.tui.conftest import World, drive, lacks, shows, until


def test_the_palette_finds_every_action(world: World) -> None:
    async def use(pilot: Pilot[None]) -> None:
        await pilot.press("ctrl+p")
        await until(pilot, lambda: len(pilot.app.screen_stack) == 2)
        await pilot.press(*"go", "space", *"to", "space", *"sync")
        await shows(pilot, "Go to Sync")
        await pilot.press("enter")
        await shows(pilot, "disk at home")
        await pilot.press("ctrl+p")
        await until(pilot, lambda: len(pilot.app.screen_stack) == 3)
        await pilot.press(*"provision")
        await shows(pilot, "Hosts: ", "Goes to Hosts, where p does it")
        await pilot.press("enter")
        await shows(pilot, "─ Hosts ─")

    drive(world.board(), use)


def test_the_palette_finds_the_commands_and_types_them(world: World) -> None:
    world.run("demo-aaaaaa", state="succeeded")

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        await pilot.press("ctrl+p", *"hosts", "space", *"trust")
        await shows(pilot, ":hosts trust", "Pin a host's changed SSH key")
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(pilot.app.screen, CommandLine))
        await until(pilot, lambda: pilot.app.screen.query_one(Input).value == "hosts trust ")
        await pilot.press("escape", "ctrl+p")
        await until(pilot, lambda: isinstance(pilot.app.screen, Palette))
        await lacks(pilot, ":hosts")  # all that there is here comes first

    drive(world.board(), use)


def test_a_command_that_is_entered_while_the_palette_reads_the_commands_is_carried_out(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.run("demo-aaaaaa", state="succeeded")
    board = world.board()
    read, held = board.read, []

    def later(words: list[str], then: Callable[[Answer], None]) -> None:
        if words == ["__complete", "commands"]:
            held.append(lambda: read(words, then))
        else:
            read(words, then)

    monkeypatch.setattr(board, "read", later)

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        await pilot.press("ctrl+p")
        await until(pilot, lambda: isinstance(pilot.app.screen, Palette))
        await pilot.press("escape", "colon", *"history", "enter")
        assert isinstance(pilot.app.screen, CommandLine)
        assert len(held) == 1  # they are read once, whoever asks
        held[0]()
        await until(pilot, lambda: isinstance(pilot.app.screen, HistoryWindow))

    drive(board, use)
