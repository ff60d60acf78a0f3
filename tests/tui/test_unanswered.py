"""The window about a host that could not be asked what it holds."""

from __future__ import annotations

import pytest
from textual.pilot import Pilot

from armada.tui.operations import Answer
from armada.tui.screens.unanswered import Unanswered
from armada.tui.screens.verdict import show_verdict
from tests.tui.conftest import World, drive, lacks, said, shows, until


@pytest.mark.parametrize("key", ["n", "enter", "q", "escape"])
def test_it_is_left_without_starting_anything(world: World, key: str) -> None:
    world.run("demo-aaaaaa", state="succeeded")
    world.checkpoint("demo-aaaaaa", 3, home=False)
    board = world.board()

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        show_verdict(board, "box", Answer(4, "", "box refuses connections"))
        await shows(pilot, "It is unknown what box holds", "demo-aaaaaa: 1 checkpoint only there")
        await until(pilot, lambda: isinstance(pilot.app.screen, Unanswered))
        await pilot.press(key)
        await lacks(pilot, "It is unknown what")
        assert not said(pilot)
        assert pilot.app.is_running

    drive(board, use)
