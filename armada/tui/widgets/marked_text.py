"""A text in which the line that a search has found is marked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.style import Style
from textual.widget import Widget
from textual.widgets import Static

if TYPE_CHECKING:
    from textual.strip import Strip

_MARK = Style(reverse=True)


class Markable(Widget):
    """Draws one of its lines reversed."""

    _marked: tuple[int, str] | None = None

    def mark(self, y: int | None, word: str = "") -> None:
        """Mark a line from now on.

        Args:
            y: The line's number from 0, as it is drawn; None: no line.
            word: In lower case. The line is marked only while it has this word: another text may come.
        """
        marked = None if y is None else (y, word)
        if marked != self._marked:
            self._marked = marked
            self.refresh()

    def render_line(self, y: int) -> Strip:
        strip = super().render_line(y)
        if self._marked is None or self._marked[0] != y or self._marked[1] not in strip.text.lower():
            return strip
        return strip.apply_style(_MARK)


class MarkedText(Static, Markable):  # its style sheet is that of the first one
    """A text as `Static` shows it."""
