"""The base of the windows over a screen: a title, one thing to scroll, and its keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, cast

from rich.text import Text
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Static

from armada.foundation.sanitize import sanitize_line
from armada.tui.bindings import of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from textual.app import ComposeResult
    from textual.widget import Widget

    from armada.tui.app import Dashboard


class Window(ModalScreen[None]):
    """A window, identified by its name in the table of keys. Subclasses bind `bindings(PLACE)` and `HELP`."""

    PLACE: ClassVar[str]
    DEFAULT_CSS = """
    Window { align: center middle; }
    Window Vertical { width: 96%; height: 90%; border: round $accent; padding: 0 1; background: $panel; }
    Window .line { height: 1; }
    """

    @property
    def board(self) -> Dashboard:
        return cast("Dashboard", self.app)

    def body(self) -> Iterable[Widget]:
        """Return the widgets between the title and the keys."""
        raise NotImplementedError

    def compose(self) -> ComposeResult:
        self.title_line = Static(classes="line")
        with Vertical():
            yield self.title_line
            yield from self.body()
            yield Static(self._keys(), classes="line")

    def say(self, title: str) -> None:
        """Show a title; it may be any text."""
        self.title_line.update(Text(self.board.symbols.text(sanitize_line(title, 300)), style="bold", no_wrap=True))

    def tell(self, words: str, *, bad: bool = False) -> None:
        """Show a message; it may be any text."""
        text = self.board.symbols.text(sanitize_line(words, 300))
        self.board.notify(text, severity="warning" if bad else "information", markup=False)

    def _keys(self) -> Text:
        parts = []
        for key in of(self.PLACE):
            if key.text:
                style = "dim" if key.changes and self.board.read_only else ""
                part = Text.assemble((self.board.symbols.text(key.shown), style or "bold"), (f" {key.text}", style))
                parts.append(part)
        line = Text("  ").join(parts)
        line.no_wrap = True
        return line

    def action_close(self) -> None:
        self.dismiss(None)

    def action_panel_help(self) -> None:
        self.board.show_help(self.PLACE)
