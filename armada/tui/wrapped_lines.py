"""Where a long line is broken, and where its other pieces begin."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rich.cells import cell_len

if TYPE_CHECKING:
    from collections.abc import Iterator

_BLANKS = re.compile(" *")
_BEGINNING = re.compile(r" *(?:[^ ]+(?: [^ ]+)* {2,})?")
"""The blanks that a line begins with, and the title of what it says: `  next       `."""


def wrapped(text: str, width: int, indent: int = 0) -> Iterator[tuple[int, int]]:
    """Yield where each piece of a long line begins and ends, in cells: after a blank, if its last third has one.

    Args:
        text: The line.
        width: Cells for the first piece.
        indent: By how many cells fewer the others have.
    """
    start, end = 0, cell_len(text)
    while end - start > width:
        # With characters of two cells, places in the text are not those on the screen.
        blank = text.rfind(" ", start + width * 2 // 3, start + width) if end == len(text) else -1
        stop = blank + 1 if blank >= 0 else start + width
        yield start, stop
        start, width, indent = stop, width - indent, 0
    yield start, end


def beginning(text: str, width: int) -> int:
    """Return where what a line says begins, in cells: its other pieces begin there, too. 0 if too little room is left."""
    most = width // 3
    for found in (_BEGINNING.match(text[: most + 1]), _BLANKS.match(text[: most + 1])):
        if found is not None and found.end() <= most and cell_len(found[0]) == found.end():
            return found.end()
    return 0
