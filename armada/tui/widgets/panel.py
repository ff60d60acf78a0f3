"""A frame with lines of a few styles."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from rich.cells import cell_len
from rich.text import Text
from textual.widget import Widget

from armada.tui import heat
from armada.tui.widgets import frame

if TYPE_CHECKING:
    from rich.style import Style
    from textual.geometry import Size

    from armada.tui.symbols import Symbols
    from armada.tui.widgets.table import Span

Spans = list["Span"]


class Panel(Widget):
    """Lines in a frame; one that does not fit is left out, and a long one is cut.

    A span in the style `more` is dim, and left out if it does not fit whole.
    """

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        f"panel--{name}"
        for name in ("plain", "strong", "dim", "more", "good", "warn", "bad", "accent", "faint", *heat.STYLES)
    }
    DEFAULT_CSS = """
    Panel { height: 1fr; width: 1fr; background: $background; color: $foreground; }
    Panel > .panel--strong { text-style: bold; }
    Panel > .panel--dim { color: $text-muted; }
    Panel > .panel--more { color: $text-muted; }
    Panel > .panel--good { color: $text-success; }
    Panel > .panel--warn { color: $text-warning; }
    Panel > .panel--bad { color: $text-error; }
    Panel > .panel--accent { color: $text-accent; }
    Panel > .panel--faint { color: $frame; }
    """ + heat.css_of("Panel", "panel")

    def __init__(self, symbols: Symbols, title: str, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id, classes=frame.FRAME)
        self.symbols = symbols
        self.lines: list[Spans] = []
        frame.title(self, title)

    def show(self, lines: list[Spans]) -> None:
        """Show these lines; nothing is drawn if they are the same."""
        if lines != self.lines:
            self.refresh(layout=len(lines) != len(self.lines) and self.styles.is_auto_height)
            self.lines = lines

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        del container, viewport, width
        return max(1, len(self.lines))

    def render(self) -> Text:
        width, height = self.size.width, self.size.height
        styles: dict[str, Style] = {}
        text = Text(no_wrap=True)
        for number, spans in enumerate(self.lines[:height]):
            text.append("\n" if number else "")
            room = width
            for words, name in [("  ", "plain"), *spans]:
                if name == "more" and cell_len(words) > room:
                    break
                shown = self.symbols.shortened(words, room)
                if name not in styles:
                    styles[name] = self.get_component_rich_style(f"panel--{name}")
                text.append(shown, styles[name])
                room -= cell_len(shown)
        return text
