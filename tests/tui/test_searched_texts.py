"""A word is searched in a text that fits on a few screens: every match is reached, and one sees which line it is."""

from __future__ import annotations

import re

from textual.pilot import Pilot

from armada.tui.screens.preview_window import PreviewWindow
from armada.tui.widgets.text_scroll import TextScroll
from tests.tui.conftest import World, drive, said, shows, strips, until


def marked(pilot: Pilot[None]) -> list[str]:
    """The reversed words of each line that has some."""
    lines = ((each for each in strip if each.style is not None and each.style.reverse) for strip in strips(pilot.app))
    words = ("".join(segment.text for segment in line) for line in lines)
    return [each.strip() for each in words if re.search("[a-z]", each)]


def test_every_match_of_a_text_is_reached_and_marked(world: World) -> None:
    lines = [f"row {number}{' needle' * (number in (10, 85, 90))}" for number in range(100)]

    async def use(pilot: Pilot[None]) -> None:
        pilot.app.push_screen(PreviewWindow("text", lines))
        await shows(pilot, "row 5")
        text = pilot.app.screen.query_one(TextScroll)
        text.word = "Needle"
        for key, row in (("n", 10), ("n", 85), ("n", 90), ("n", 10), ("N", 90), ("N", 85), ("N", 10)):
            await pilot.press(key)
            await until(pilot, lambda row=row: marked(pilot) == [f"row {row} needle"])  # type: ignore[misc]  # its default
        await pilot.press("G", "N")
        await until(pilot, lambda: marked(pilot) == ["row 10 needle"])
        text.word = "nowhere"
        await pilot.press("n")
        await until(pilot, lambda: "not found: nowhere" in said(pilot))
        assert marked(pilot) == []

    drive(world.board(), use, (80, 24))


def test_help_marks_the_line_that_was_found(world: World) -> None:
    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "Welcome")
        await pilot.press("question_mark")
        await shows(pilot, "esc closes")
        await pilot.press("slash")
        await shows(pilot, "n and N then go")
        await pilot.press(*"find an action", "enter")
        await until(pilot, lambda: "Find an action" in "".join(marked(pilot)))

    drive(world.board(), use, (80, 24))
