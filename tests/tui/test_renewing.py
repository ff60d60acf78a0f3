"""What is on the screen fits its size and its theme at once, also if nothing changes in the store."""

from __future__ import annotations

import functools

from textual.color import Color
from textual.pilot import Pilot

from armada.tui.app import Dashboard
from armada.tui.screens.run import RunScreen
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
