"""A window with a list, what it is about above and a note below: questions, verdicts on a host."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, TypeVar

from rich.cells import cell_len
from rich.text import Text
from textual.containers import VerticalScroll
from textual.widgets import Static

from armada.tui.screens.dialog import Dialog
from armada.tui.widgets import frame
from armada.tui.widgets.hanging import HangingText

if TYPE_CHECKING:
    from textual.app import ComposeResult
    from textual.content import Content

SHOWN = 500
"""How many lines a list has at most."""

Result = TypeVar("Result")


class ListWindow(Dialog[Result]):
    """A title that is never cut, a list that scrolls, a note; what it shows comes sanitized, and is no markup.

    Args:
        title: What it is about. Where the window's edge has no room for it, it stands in the window.
        lines: The list.
        note: What will happen.
        keys: What the keys do, for the lower edge.
        why: What stands above the list; nothing if empty.
        short: What the edge says where it has no room for the title; as much of the title as fits if None.
        kind: What kind of window it is, see `frame.dialog`.
    """

    WIDEST: ClassVar[int] = 110
    """The most columns it takes; its DEFAULT_CSS says so, too."""
    DEFAULT_CSS = """
    ListWindow { align: center middle; }
    ListWindow Vertical { width: 90%; max-width: 110; height: auto; max-height: 95%; }
    ListWindow .part { margin: 1 0 0 0; }
    ListWindow VerticalScroll {
        width: 100%; max-width: 100%; height: auto; max-height: 50vh; border: none; padding: 0; background: $panel;
    }
    ListWindow Static { height: auto; }
    """

    def __init__(
        self,
        title: str,
        lines: Text,
        note: str,
        keys: Content,
        *,
        why: str = "",
        short: str | None = None,
        kind: str = "",
    ) -> None:
        super().__init__()
        self._title, self._short, self._kind = title, short, kind
        self._why, self._lines, self._note, self._keys = Text(why), lines, Text(note, style="dim"), keys

    def compose(self) -> ComposeResult:
        is_long = cell_len(self._title) > min(self.WIDEST, self.app.size.width * 9 // 10) - 6  # longer than the edge
        box = frame.dialog(self._short if is_long and self._short is not None else self._title, kind=self._kind)
        frame.facts(box, self._keys)
        with box:
            if is_long:
                yield Static(Text(self._title, style="bold"))
            if self._why:
                yield Static(self._why)
            with VerticalScroll(classes="part" if self._why else ""):
                yield HangingText(self._lines)
            yield Static(self._note, classes="part")
