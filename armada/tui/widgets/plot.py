"""The base of plots with one mark or line for each run: parallel coordinates, scatter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip
from textual.widget import Widget

from armada.tui.theme import CURVES
from armada.tui.widgets import frame

if TYPE_CHECKING:
    from armada.tui.symbols import Symbols

COLOURS = tuple(f"curve-{place}" for place in range(1, CURVES + 1))
BOLD = Style(bold=True)
Cell = tuple[str, str]
"""A character and the name of its style; `curve-3+` is bold."""
BLANK: Cell = (" ", "")


@dataclass(frozen=True, slots=True)
class Drawn:
    """A run in a plot: its letter, the number of its colour, and whether the cursor is on it."""

    sign: str
    colour: int
    lit: bool = False

    @property
    def style(self) -> str:
        """The name of its style."""
        return f"{COLOURS[self.colour % len(COLOURS)]}{'+' if self.lit else ''}"


class Plot(Widget):
    """Draws lines of cells, again only when the content or the size changed.

    Args:
        symbols: The symbols that the terminal can show.
    """

    COMPONENT_CLASSES: ClassVar[set[str]] = {f"plot--{name}" for name in (*COLOURS, "dim", "grid", "title", "accent")}
    DEFAULT_CSS = "\n".join(
        ["Plot { background: $background; color: $foreground; height: 1fr; min-height: 4; }"]
        + [f"Plot > .plot--{name} {{ color: ${name}; }}" for name in COLOURS]
        + ["Plot > .plot--dim { color: $text-muted; }", "Plot > .plot--title { text-style: bold; }"]
        + ["Plot > .plot--grid { color: $frame; }", "Plot > .plot--accent { color: $text-accent; }"]
    )

    def __init__(self, symbols: Symbols) -> None:
        super().__init__(classes=frame.FRAME)
        self.symbols = symbols
        self.empty = ""
        """Why nothing is drawn, sanitized."""
        self._strips: list[Strip] = []

    def redraw(self) -> None:
        """Draw again: the content changed."""
        self._strips = []
        self.refresh()

    def cells(self, width: int, height: int) -> list[list[Cell]]:
        """Return the lines of cells; none if nothing can be drawn."""
        raise NotImplementedError

    def on_resize(self) -> None:
        self.redraw()

    def notify_style_update(self) -> None:
        self._strips = []
        super().notify_style_update()

    def render_line(self, y: int) -> Strip:
        width, height = self.size.width, self.size.height
        if len(self._strips) != height:
            lines = self.cells(width, height) if width > 0 and height > 0 else []
            if not lines:
                lines = [[], text_cells(f"  {self.symbols.text(self.empty)}", "dim", width)]
            self._strips = [self._strip(line, width) for line in lines][:height]
            self._strips += [Strip.blank(width, self.rich_style)] * (height - len(self._strips))
        return self._strips[y]

    def _strip(self, line: list[Cell], width: int) -> Strip:
        segments: list[Segment] = []
        styles: dict[str, Style] = {}
        words, last = "", ""
        for text, name in (*line, ("", "\0")):
            if name == last:
                words += text
                continue
            if words:
                if last not in styles:
                    styles[last] = self._style(last)
                segments.append(Segment(words, styles[last]))
            words, last = text, name
        return Strip(segments).adjust_cell_length(width, self.rich_style)

    def _style(self, name: str) -> Style:
        plain = self.rich_style
        if not name:
            return plain
        found = plain + self.get_component_rich_style(f"plot--{name.removesuffix('+')}")
        return found + BOLD if name.endswith("+") else found


def text_cells(text: str, style: str, room: int) -> list[Cell]:
    """Return a text as cells, cut to the room; a wide character takes two, of which the second is empty."""
    if cell_len(text) > room:
        text = set_cell_size(text, max(0, room))
    made: list[Cell] = []
    for character in text:
        wide = cell_len(character)
        if wide == 0 and made:
            made[-1] = (made[-1][0] + character, made[-1][1])
        elif wide:
            made.append((character, style))
            made += [("", style)] * (wide - 1)
    return made


def put(line: list[Cell], start: int, text: str, style: str) -> None:
    """Write a text into a line of cells, as far as it fits."""
    found = text_cells(text, style, len(line) - start) if 0 <= start < len(line) else []
    line[start : start + len(found)] = found
