"""Screens and windows use their room: keys that do something, lists as high as they are, texts that are not cut off."""

from __future__ import annotations

import pytest
from textual.color import Color
from textual.pilot import Pilot

from armada.tui.outputs import Reading
from armada.tui.screens.add_host import AddHost
from armada.tui.screens.chooser import Choice, Chooser
from armada.tui.screens.output import OutputWindow
from armada.tui.screens.window import inside
from armada.tui.symbols import UNICODE
from armada.tui.wrapped_lines import beginning, wrapped
from tests.tui.conftest import World, drive, lacks, screen, shows, until


@pytest.mark.parametrize("size", [(40, 12), (80, 24), (250, 70)])
def test_before_the_first_launch_only_keys_with_something_to_act_on_are_shown(
    world: World, size: tuple[int, int]
) -> None:
    async def use(pilot: Pilot[None]) -> None:
        seen = await shows(pilot, "Nothing has been launched yet", "n launch", "q quit")
        assert not [word for word in ("enter open", "l logs", "x stop") if word in seen]
        world.run("demo-aaaaaa")
        await shows(pilot, "demo-aaaaaa", "enter open")

    drive(world.board(), use, size)


@pytest.mark.parametrize(
    ("width", "words"), [(60, "▲ 1"), (50, "▲ 1"), (40, "▲ 1"), (30, "▲ 1"), (80, "▲ 1 needs you")]
)
def test_what_needs_you_is_left_out_last(world: World, width: int, words: str) -> None:
    world.run("demo-aaaaaa", state="running")
    world.run("next-aaaaaa", state="queued")
    world.run("lost-aaaaaa", state="failed", reason="oom", message="CUDA out of memory")

    async def use(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: words in screen(pilot).splitlines()[0])
        assert ("● 1" in screen(pilot).splitlines()[0]) >= ("◐ 1" in screen(pilot).splitlines()[0])

    drive(world.board(), use, (width, 20))


def test_the_welcome_is_in_the_middle_and_whole(world: World) -> None:
    async def use(pilot: Pilot[None]) -> None:
        lines = (await shows(pilot, "─ Welcome ─")).splitlines()
        (top,) = (at for at, line in enumerate(lines) if "─ Welcome ─" in line)
        (bottom,) = (at for at, line in enumerate(lines) if "╰──" in line)
        assert abs(top - (len(lines) - 1 - bottom)) <= 1
        left = lines[top].index("╭")
        assert abs(left - (140 - len(lines[top].rstrip()))) <= 1
        assert "quickstart on the host local" in lines[top + 4]

    drive(world.board(), use)


@pytest.mark.parametrize(("count", "rows"), [(1, 3), (6, 6), (200, 25)])
def test_a_list_to_choose_from_is_as_high_as_it_is_and_its_names_as_wide(world: World, count: int, rows: int) -> None:
    board = world.board()
    choices = [Choice(str(number), f"name-{number}", f"what it is: {'w' * 50} END") for number in range(count)]

    async def use(pilot: Pilot[None]) -> None:
        chooser = Chooser("Which?", choices, UNICODE)
        board.push_screen(chooser)
        await shows(pilot, "name-0", "END")
        assert chooser.table.size.height - 2 == rows

    drive(board, use, (100, 60))


def test_the_form_of_a_host_has_no_empty_lines_before_something_was_said(world: World) -> None:
    async def use(pilot: Pilot[None]) -> None:
        await pilot.press("3", "a")
        seen = await shows(pilot, "Add a host", "scheduler")
        form = pilot.app.screen
        assert isinstance(form, AddHost)
        lines = seen.splitlines()
        (last,) = (at for at, line in enumerate(lines) if "scheduler" in line)
        assert "esc cancels" in lines[last + 1]
        await pilot.press(*"box", "enter", "enter")
        await shows(pilot, "a name and an address are needed")

    drive(world.board(), use)


@pytest.mark.parametrize("width", [80, 120, 160, 250])
def test_a_command_is_told_how_wide_its_window_is_and_what_is_longer_is_wrapped(world: World, width: int) -> None:
    log = world.home.state / "said.txt"
    log.write_text("word " * 60 + "END\n")

    async def use(pilot: Pilot[None]) -> None:
        window = OutputWindow(["show"], log, lambda: 0)
        pilot.app.push_screen(window)
        await shows(pilot, "word word", "END", "╭─ armada show ─")
        assert window.view.size.width == inside(width)
        assert window.view.styles.background == Color.parse(board.theme_variables["panel"])
        assert not [line for line in screen(pilot).splitlines() if "wor " in line or "wo " in line], "cut at blanks"
        await pilot.press("W")
        await lacks(pilot, "END")

    board = world.board()
    drive(board, use, (width, 24))
    reading = Reading(world.home, [("--version",)], inside(width))
    assert reading._environment["COLUMNS"] == str(inside(width))  # noqa: SLF001  # no command prints it
    reading.stop()


def test_a_table_that_is_wider_than_its_window_is_scrolled(world: World) -> None:
    """The row of a run that goes on in the next line stands below another column."""
    log = world.home.state / "said.txt"
    log.write_text("".join(f"run-{number} {'word ' * 20}END-{number}\n" for number in range(3)))

    async def use(pilot: Pilot[None]) -> None:
        pilot.app.push_screen(OutputWindow(["ps", "--all"], log, lambda: 0))
        seen = await shows(pilot, "run-0 word", "run-2 word", "╭─ armada ps --all ─")
        assert "END" not in seen
        await pilot.press("W")
        await shows(pilot, "END-0", "END-2")

    drive(world.board(), use, (80, 24))


@pytest.mark.parametrize(
    ("text", "width", "pieces"),
    [
        ("", 4, [""]),
        ("abcd", 4, ["abcd"]),
        ("abcdefgh", 4, ["abcd", "efgh"]),
        ("one two three", 8, ["one two ", "three"]),
        ("a bcdefghij", 6, ["a bcde", "fghij"]),
        ("日本語 日本", 4, None),
    ],
)
def test_a_long_line_is_wrapped_after_a_blank_near_the_edge(text: str, width: int, pieces: list[str] | None) -> None:
    found = list(wrapped(text, width))
    assert all(end - start <= width for start, end in found)
    assert [start for start, _ in found[1:]] == [end for _, end in found[:-1]]
    if pieces is not None:
        assert [text[start:end] for start, end in found] == pieces


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("", 0),
        ("words of one line", 0),
        ("    words", 4),
        ("  next       lower the micro batch", 13),
        ("last lines  of rank 3", 12),
        ("  a title that is longer than a third of the window  words", 2),
        (" " * 40 + "words", 0),
        ("  日本     words", 2),
    ],
)
def test_the_pieces_of_a_line_begin_where_its_words_do(text: str, place: int) -> None:
    assert beginning(text, 60) == place


def test_a_long_advice_is_wrapped_below_its_words(world: World) -> None:
    log = world.home.state / "said.txt"
    log.write_text(f"  cause      short\n  next       {'word ' * 60}END\n")

    async def use(pilot: Pilot[None]) -> None:
        pilot.app.push_screen(OutputWindow(["why", "demo"], log, lambda: 0))
        await shows(pilot, "cause      short", "END")

        def is_below() -> bool:
            lines = [line[line.index("│") + 1 :] for line in screen(pilot).splitlines() if "word" in line]
            return len(lines) > 2 and len({line.index("word") for line in lines}) == 1

        await until(pilot, is_below)

    drive(world.board(), use, (80, 24))


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_window_with_a_long_command_says_how_it_ended(world: World, width: int) -> None:
    log = world.home.state / "shown.log"
    log.write_text("no run is called so\n")
    command = ["show", "--json", *(f"a-run-with-a-long-name-{number}" for number in range(6))]

    async def use(pilot: Pilot[None]) -> None:
        pilot.app.push_screen(OutputWindow(command, log, lambda: 1))
        seen = await shows(pilot, "armada show --json", "… ", "   ended with 1 ─", "no run is called so")
        assert "ended with 1 ─" in next(row for row in seen.splitlines() if "armada show" in row)

    drive(world.board(), use, (width, 24))
