"""Lines of text in a window: the first rows of the data, or the cells of a sweep."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual.binding import Binding

from armada.foundation.sanitize import sanitize_line
from armada.tui.screens.window import Window
from armada.tui.widgets import frame
from armada.tui.widgets.marked_text import MarkedText
from armada.tui.widgets.text_scroll import TextScroll

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from textual.binding import BindingType
    from textual.content import Content
    from textual.widget import Widget


class PreviewWindow(Window):
    """Shows lines, which may be any text; scrolls and searches.

    Args:
        title: What they are.
        lines: The lines.
    """

    PLACE = "find"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,v", "close", "Close")]

    def __init__(self, title: str, lines: Sequence[str]) -> None:
        super().__init__()
        self._title = title
        self._lines = lines

    def body(self) -> Iterable[Widget]:
        text = "\n".join(self.board.symbols.text(sanitize_line(line, 2000)) for line in self._lines)
        self.scroll = TextScroll(MarkedText(Text(text)))
        yield self.scroll

    def _keys(self) -> Content:
        return frame.keys(("/", "search"), ("esc", "close"))

    def on_mount(self) -> None:
        self.say(self._title)
        self.scroll.focus()
