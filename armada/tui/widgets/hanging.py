"""A text whose long lines are wrapped, and go on a little right of where they begin."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text
from textual.widget import Widget

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console
    from textual.geometry import Size

HANGS = 2
"""By how many cells the other pieces of a line are further right."""
LEAST_ROOM = 20
"""In fewer cells than these for what it says, a line goes on at the left edge."""


class HangingText(Widget):
    """Shows a text of any lines.

    Args:
        text: Sanitized.
    """

    DEFAULT_CSS = """
    HangingText { height: auto; }
    """

    def __init__(self, text: Text) -> None:
        super().__init__()
        self.text = text

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Return how many rows the text needs."""
        del container, viewport
        return sum(1 for _ in self._rows(width))

    def render(self) -> Text:
        """Return the text for the present width."""
        return Text("\n", no_wrap=True).join(self._rows(self.size.width))

    def _rows(self, width: int) -> Iterator[Text]:
        for line in self.text.split("\n", allow_blank=True):
            yield from pieces(line, width, self.app.console)


def pieces(line: Text, width: int, console: Console) -> Iterator[Text]:
    """Yield the rows of a line, each in so many cells at most, or in the two of a wide character."""
    width = max(2, width)
    indent = len(line.plain) - len(line.plain.lstrip(" ")) + HANGS
    indent = indent if width - indent >= LEAST_ROOM else 0
    room, before = width, ""
    while True:
        row = line.wrap(console, room)[0] if line.plain else line
        yield Text(before, no_wrap=True).append_text(row)
        rest = line[len(row.plain) :]
        line = rest[len(rest.plain) - len(rest.plain.lstrip(" ")) :]
        if not line.plain:
            return
        room, before = width - indent, " " * indent
