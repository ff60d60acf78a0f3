"""The numbers of a log's lines at its left edge: where they are known, never wrong, and never copied."""

from __future__ import annotations

import re

import pytest
from textual.pilot import Pilot

from armada.tui.log_file import LogFile
from armada.tui.rank_lines import RankLines
from armada.tui.screens.run import RunScreen
from armada.tui.widgets.log_view import LogView
from tests.tui.conftest import World, drive, lacks, said, screen, shows, until

RUN = "run-aaaaaa"


def log(count: int = 300) -> str:
    return "".join(f"[rank{number % 4}]: this is line {number}\n" for number in range(1, count + 1))


def numbered(pilot: Pilot[None]) -> dict[int, int]:
    """The number beside each line that is in sight, by the number that the line itself says."""
    found = re.findall(r"│ *(\d+) \[rank\d\]: this is line (\d+)", screen(pilot))
    return {int(line): int(number) for number, line in found}


async def opened(pilot: Pilot[None], words: str = "this is line 300") -> LogView:
    await shows(pilot, RUN)
    await pilot.press("l")
    await shows(pilot, words)
    view = pilot.app.screen
    assert isinstance(view, RunScreen)
    return view.log_view


def are_right(numbers: dict[int, int]) -> bool:
    return bool(numbers) and all(line == number for line, number in numbers.items())


@pytest.mark.parametrize(("width", "unasked"), [(80, False), (119, False), (120, True), (160, True)])
def test_lines_have_their_numbers_where_the_log_is_wide_and_where_a_key_asks_for_them(
    world: World, width: int, unasked: bool
) -> None:
    world.local_log(RUN, log())

    async def use(pilot: Pilot[None]) -> None:
        await opened(pilot)
        await until(pilot, lambda: bool(numbered(pilot)) == unasked)
        if unasked:
            await pilot.press("number_sign")
            await until(pilot, lambda: not numbered(pilot))
        await pilot.press("number_sign")
        await until(pilot, lambda: are_right(numbered(pilot)))
        await pilot.press("number_sign")
        await until(pilot, lambda: not numbered(pilot))

    drive(world.board(), use, (width, 30))


def test_the_numbers_stay_right_while_one_moves_searches_jumps_and_filters(world: World) -> None:
    world.local_log(RUN, log())

    async def use(pilot: Pilot[None]) -> None:
        await opened(pilot)
        await until(pilot, lambda: 300 in numbered(pilot) and are_right(numbered(pilot)))
        await pilot.press("g")
        await until(pilot, lambda: 1 in numbered(pilot) and are_right(numbered(pilot)))
        await pilot.press("J", *"120", "enter")
        await until(pilot, lambda: min(numbered(pilot), default=0) == 120 and are_right(numbered(pilot)))
        await pilot.press("slash", *"line 222", "enter")
        await until(pilot, lambda: 222 in numbered(pilot) and are_right(numbered(pilot)))
        await pilot.press("r", "2", "enter")
        await until(pilot, lambda: 222 in numbered(pilot) and 223 not in numbered(pilot) and are_right(numbered(pilot)))
        await pilot.press("g", "W")
        await until(pilot, lambda: 2 in numbered(pilot) and are_right(numbered(pilot)))

    drive(world.board(), use, (120, 30))


def test_a_wrapped_line_has_its_number_once_and_its_pieces_stay_beside_it(world: World) -> None:
    world.local_log(RUN, f"first\n{'word ' * 60}end\nlast\n")

    async def use(pilot: Pilot[None]) -> None:
        view = await opened(pilot, "last")
        await pilot.press("W")
        await shows(pilot, "word end")
        rows = [view.render_line(row).text for row in range(view.size.height)]
        shown = [row.rstrip() for row in rows if row.strip()]
        assert [row[:6] for row in shown] == ["    1 ", "    2 ", "      ", "      ", "    3 "]
        assert " ".join(row[6:] for row in shown[1:4]) == "word " * 60 + "end"
        assert all(row[6:] == row[6:].lstrip() for row in shown)

    drive(world.board(), use, (120, 30))


def test_copied_lines_have_no_numbers(world: World) -> None:
    world.local_log(RUN, log(9))
    board = world.board()

    async def use(pilot: Pilot[None]) -> None:
        await opened(pilot, "this is line 9")
        await until(pilot, lambda: are_right(numbered(pilot)))
        await pilot.press("Y")
        await until(pilot, lambda: board.clipboard == log(9).rstrip("\n"))

    drive(board, use, (120, 30))


@pytest.mark.parametrize(("file", "is_known"), [("output.log", True), ("output.log.end", False)])
def test_lines_of_a_copy_that_may_not_begin_with_the_first_one_have_no_numbers(
    world: World, file: str, is_known: bool
) -> None:
    world.hosts(box={"ssh": "root@192.0.2.1"})
    world.run(RUN, host="box", state="succeeded", exit_code=0)
    outputs = world.home.run(RUN) / "outputs"
    outputs.mkdir(parents=True)
    (outputs / file).write_text(log())

    async def use(pilot: Pilot[None]) -> None:
        await opened(pilot)
        await pilot.press("number_sign")
        if is_known:
            await until(pilot, lambda: are_right(numbered(pilot)))
            await shows(pilot, "· lines 2")
        else:
            await until(pilot, lambda: "may not begin with the log's first line" in said(pilot))
            assert not numbered(pilot)
            await lacks(pilot, "· lines ")

    drive(world.board(read_only=True), use, (100, 30))


def test_lines_too_far_to_count_have_no_number(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("armada.tui.log_file.COUNTED_BYTES", 1000)
    path = world.local_log(RUN, log())

    async def use(pilot: Pilot[None]) -> None:
        await opened(pilot)
        await lacks(pilot, "· lines ")
        assert not numbered(pilot)
        await pilot.press("g")
        await until(pilot, lambda: 1 in numbered(pilot) and are_right(numbered(pilot)))

    drive(world.board(), use, (120, 30))
    assert LogFile(path).counted([LogFile(path).tail(1)]) == [None]


def test_the_lines_of_a_rank_are_counted_in_the_whole_file(world: World) -> None:
    path = world.local_log(RUN, log())
    ranks = RankLines(path, 3)
    lines = ranks.forward(0, 3)
    assert ranks.counted(line.start for line in lines) == [3, 7, 11]
    assert ranks.number_of(lines[0].start) is None
