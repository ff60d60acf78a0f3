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
