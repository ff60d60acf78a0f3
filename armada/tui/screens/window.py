"""The base of the windows over a screen: a title, one thing to scroll, and its keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, cast

from armada.foundation.sanitize import sanitize_line
from armada.tui.bindings import of
from armada.tui.screens.dialog import Dialog
from armada.tui.widgets import frame

if TYPE_CHECKING:
    from collections.abc import Iterable

    from textual.app import ComposeResult
    from textual.content import Content
    from textual.widget import Widget

    from armada.tui.app import Dashboard


def inside(width: int) -> int:
    """The columns inside a window, on a terminal of a width."""
    return width * 96 // 100 - 4


class Window(Dialog[None]):
    """A window, identified by its name in the table of keys. Subclasses bind `bindings(PLACE)`."""

    PLACE: ClassVar[str]
    DEFAULT_CSS = """
    Window { align: center middle; }
    Window Vertical { width: 96%; height: 90%; }
    """

    @property
    def board(self) -> Dashboard:
        return cast("Dashboard", self.app)

    def body(self) -> Iterable[Widget]:
        """Return the widgets between the title and the keys."""
        raise NotImplementedError

    def compose(self) -> ComposeResult:
        self.box = frame.dialog("")
        frame.facts(self.box, self._keys())
        with self.box:
            yield from self.body()

    def say(self, title: str) -> None:
        """Show a title; it may be any text."""
        frame.title(self.box, self.board.symbols.text(sanitize_line(title, 300)))

    def tell(self, words: str, *, bad: bool = False) -> None:
        """Show a message; it may be any text."""
        text = self.board.symbols.text(sanitize_line(words, 300))
        self.board.notify(text, severity="warning" if bad else "information", markup=False)

    def _keys(self) -> Content:
        shown = [key for key in of(self.PLACE) if key.text and not (key.changes and self.board.read_only)]
        return frame.keys(*((self.board.symbols.text(key.shown), key.text) for key in shown))

    def action_close(self) -> None:
        self.dismiss(None)
