"""A log whose lines are wrapped: each takes several rows, and every part of it can be reached."""

from __future__ import annotations

import re

from textual.pilot import Pilot

from armada.tui.screens.run import RunScreen
from armada.tui.widgets.log_view import LogView
from tests.tui.conftest import World, drive, screen, shows, until

LINES = 100


def visible(pilot: Pilot[None]) -> list[int]:
    return [int(number) for number in re.findall(r"line (\d{3})", screen(pilot))]


def view(pilot: Pilot[None]) -> LogView:
    assert isinstance(pilot.app.screen, RunScreen)
    return pilot.app.screen.log_view


async def wrapped(pilot: Pilot[None]) -> None:
    """Open the log at its end, and wrap its lines to three rows each."""
    await shows(pilot, "demo-aaaaaa")
    await pilot.press("l")
    await shows(pilot, "line 100", "following")
    await pilot.press("W")
    await until(pilot, lambda: len(visible(pilot)) < 13)


def long_lines(world: World) -> None:
    world.local_log("demo-aaaaaa", "".join(f"line {n:03} {'x' * 300} end{n:03}\n" for n in range(1, LINES + 1)))


def test_of_a_wrapped_log_every_line_is_reached_by_line_and_by_page(world: World) -> None:
    long_lines(world)

    async def walk(pilot: Pilot[None], key: str, seen: set[int]) -> None:
        """Press a key until nothing moves; two screens in succession share a line or meet."""
        while True:
            before = visible(pilot)
            seen.update(before)
            await pilot.press(key)
            after = visible(pilot)
            if after == before:
                return
            assert max(before[0], after[0]) <= min(before[-1], after[-1]) + 1, (key, before, after)

    async def use(pilot: Pilot[None]) -> None:
        await wrapped(pilot)
        for up, down in (("k", "j"), ("pageup", "pagedown")):
            for key in (up, down):
                seen: set[int] = set()
                await walk(pilot, key, seen)
                assert sorted(seen) == list(range(1, LINES + 1)), key
            await shows(pilot, "following", "end100")

    drive(world.board(), use)


def test_a_step_up_from_the_end_of_a_wrapped_log_moves_by_one_line(world: World) -> None:
    long_lines(world)

    async def use(pilot: Pilot[None]) -> None:
        await wrapped(pilot)
        first = view(pilot).picture.split()[1]  # the line may be visible in part
        await pilot.press("k")
        await until(pilot, lambda: visible(pilot)[0] == int(first) - 1)
        await pilot.press("j", "j")
        await shows(pilot, "end100", "following")

    drive(world.board(), use)


def test_a_match_near_the_end_of_a_wrapped_log_is_visible(world: World) -> None:
    long_lines(world)

    async def use(pilot: Pilot[None]) -> None:
        await wrapped(pilot)
        for number in ("085", "093", "100"):
            await pilot.press("slash", *f"end{number}", "enter")
            await shows(pilot, f"search “end{number}” 1 of 1", f"x end{number}")

    drive(world.board(), use)


def test_the_frame_of_a_wrapped_log_names_the_lines_that_are_visible(world: World) -> None:
    long_lines(world)

    async def use(pilot: Pilot[None]) -> None:
        await wrapped(pilot)
        for key in ("G", "g", "pagedown", "j"):
            await pilot.press(key)
            await until(pilot, lambda: view(pilot).place)
            found = re.search(r"lines (\d+)–(\d+)", view(pilot).place)
            assert found is not None
            first, last = int(found[1]), int(found[2])
            assert list(range(max(first, visible(pilot)[0]), last + 1)) == visible(pilot)
            assert visible(pilot)[0] - first in (0, 1), "the first line may be visible without its beginning"

    drive(world.board(), use)
