"""Draw what completes a line, one candidate in each row."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from armada.foundation.sanitize import sanitize_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from armada.tui.symbols import Symbols

AROUND = 6
"""The frame of the box that has the lines, and the blanks beside them."""


def candidate_lines(
    found: Sequence[tuple[str, str]], chosen: int, room: int, symbols: Symbols, width: int
) -> list[Text]:
    """Return the lines of the candidates around the chosen one.

    Args:
        found: Words, each with what it is; any text.
        chosen: The place of the chosen one; -1 if none is.
        room: How many lines there are.
        symbols: The symbols that the terminal can show.
        width: Cells of a line; what describes a candidate is cut there, with a mark.
    """
    first = max(0, chosen - room + 1)
    lines = []
    for place, (word, about) in enumerate(found[first : first + room], first):
        sign = f"{symbols.cursor} " if place == chosen else "  "
        line = Text(f"{sign}{symbols.text(sanitize_line(word, 60)):<28} ", style="bold" if place == chosen else "")
        line.append(symbols.shortened(sanitize_line(about, 100), width - line.cell_len), style="dim")
        line.no_wrap = True
        lines.append(line)
    return lines
