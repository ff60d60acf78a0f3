"""The lines of a question and of a verdict: pieces of a long one stand right of where it begins."""

from __future__ import annotations

import pytest
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text
from textual.pilot import Pilot

from armada.tui.screens.question import Question
from armada.tui.symbols import UNICODE
from armada.tui.widgets.hanging import pieces
from tests.tui.conftest import World, drive, shows


@pytest.mark.parametrize("width", [1, 5, 21, 30, 80])
@pytest.mark.parametrize(
    "line",
    ["", "short", "  given up: its job, which may still run there", "日本" * 30, "x" * 70, "  a " + "日本 " * 20],
)
def test_no_word_of_a_line_is_lost_and_no_piece_is_too_wide(line: str, width: int) -> None:
    rows = [row.plain for row in pieces(Text(line), width, Console(width=200))]
    assert all(cell_len(row) <= max(width, 2) for row in rows)
    assert "".join("".join(rows).split()) == "".join(line.split())
    begins = len(line) - len(line.lstrip())
    assert {len(row) - len(row.lstrip()) for row in rows[1:]} <= {begins + 2 if width - begins - 2 >= 20 else 0}


def test_the_lines_of_a_question_hang_at_every_width(world: World) -> None:
    lines = ["run-aaaaaa on box, failed", "  given up: " + "word " * 30, "its own name stays: " + "because " * 20]

    async def use(pilot: Pilot[None]) -> None:
        pilot.app.push_screen(Question("Remove it?", lines, "There is no undo.", "remove", UNICODE))
        seen = await shows(pilot, "Remove it?", "There is no undo.")
        for _ in range(2):
            rows = [row.replace("│", " ") for row in seen.splitlines()]
            margin = next(row.index("run-aaaaaa") for row in rows if "run-aaaaaa" in row)
            for words, first in (("word", 2), ("because", 0)):
                begin = [len(row) - len(row.lstrip()) - margin for row in rows if words in row]
                assert len(begin) > 1
                assert begin == [first] + [first + 2] * (len(begin) - 1)
            await pilot.resize_terminal(60, 30)
            seen = await shows(pilot, "There is no undo.")

    drive(world.board(), use, (90, 30))
