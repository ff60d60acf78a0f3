"""The whole text of what is under the cursor, below a table that has to cut it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text
from textual.containers import VerticalScroll
from textual.widgets import Static

if TYPE_CHECKING:
    from textual.app import ComposeResult

    from armada.tui.symbols import Symbols


class Whole(VerticalScroll, can_focus=False):
    """As high as its text, up to a limit; a longer text scrolls by the wheel.

    Args:
        symbols: The symbols that the terminal can show.
        id: As for every widget.
    """

    DEFAULT_CSS = """
    Whole { height: auto; max-height: 50vh; padding: 0 1; }
    Whole > Static { height: auto; }
    """

    def __init__(self, symbols: Symbols, *, id: str) -> None:  # noqa: A002
        super().__init__(id=id)
        self.symbols = symbols
        self._words = ""
        self._text = Static()

    def compose(self) -> ComposeResult:
        yield self._text

    def say(self, words: str) -> None:
        """Show a text, wrapped; it comes sanitized."""
        if words != self._words:
            self._words = words
            self._text.update(Text(self.symbols.text(words)))
            self.scroll_to(y=0, animate=False)
