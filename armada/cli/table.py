"""Print rows in aligned columns."""

from __future__ import annotations

import sys
import unicodedata
from typing import TYPE_CHECKING

from armada.foundation.sanitize import sanitize_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_CELL = 5000


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Align columns by their width on a terminal, including wide and combining characters.

    What a terminal would obey is replaced: cells come from hosts and from files of projects.
    """
    lines = [tuple(header), *(tuple(map(_cell, row)) for row in rows)]
    widths = [max(width(line[column]) for line in lines) for column in range(len(header))]
    written = "\n".join(
        "  ".join(cell + " " * (room - width(cell)) for cell, room in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )
    return written if written.isascii() else _for_terminal(written)


def fit(
    header: Sequence[str], rows: Sequence[Sequence[str]], room: int, *, cut: str, least: int, drop: Sequence[str]
) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Make a table as wide as a terminal: cut its longest texts, then leave out columns. One that fits stays as it is.

    One that is too wide even so keeps its columns: leaving some out would not help.

    Args:
        header: The names of the columns.
        rows: Their cells.
        room: The columns of the terminal.
        cut: The column whose texts are cut.
        least: How short they may become.
        drop: The columns that are left out then, one by one.
    """
    whole = lines = [tuple(header), *(tuple(map(_cell, row)) for row in rows)]
    for name in (None, *drop):
        if name in lines[0]:
            place = lines[0].index(name)
            lines = [line[:place] + line[place + 1 :] for line in lines]
        widths = [max(map(width, column)) for column in zip(*lines, strict=True)]
        excess = sum(widths) + 2 * (len(widths) - 1) - room
        if excess > 0 and cut in lines[0]:
            place = lines[0].index(cut)
            most = max(least, widths[place] - excess)
            excess -= widths[place] - min(most, widths[place])
            if excess <= 0:
                lines = _cut(lines, place, most)
        if excess <= 0:
            break
    else:
        lines = _cut(whole, whole[0].index(cut), least) if cut in whole[0] else whole
    return lines[0], lines[1:]


def _cut(lines: Sequence[tuple[str, ...]], place: int, most: int) -> list[tuple[str, ...]]:
    """Cut the texts of a column."""
    return [(*line[:place], _shortened(line[place], most), *line[place + 1 :]) for line in lines]


def _shortened(text: str, most: int) -> str:
    """Cut a text to a number of columns of a terminal."""
    if width(text) <= most:
        return text
    while width(text) >= most:
        text = text[:-1]
    return f"{text}…"


def _for_terminal(written: str) -> str:
    """Keep names that are read from right to left in their cells, in terminals that reorder such text; a pipe gets them plain."""
    if not (sys.stdout.isatty() and (sys.stdout.encoding or "").lower().startswith("utf")):
        return written
    from armada.foundation.isolates import isolated

    return isolated(written)


def _cell(text: str) -> str:
    return text if text.isascii() and text.isprintable() else sanitize_line(text, _CELL)


def width(text: str) -> int:
    """Return how many columns of a terminal a text takes."""
    if text.isascii():  # a third of the time that `ps` of a thousand runs takes
        return len(text)
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)
