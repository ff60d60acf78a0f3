"""A chart: axes, one or several curves, zoom and pan."""

from __future__ import annotations

import math
import time
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from armada.costs.price import money
from armada.tui.curves import Levels
from armada.tui.widgets.braille import Canvas, Window, draw, extent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual import events

    from armada.tui.symbols import Symbols

LABEL = 9
NAMES = "abcdefghij"
LOOKED_THROUGH = 1000
"""With more points than these, a search for a second visible one is unnecessary."""
MARKED = Style(reverse=True)
COLOURS = ("accent", "primary", "success", "error", "secondary", "warning")
"""In Textual's own theme the first and the last have the same colour."""


@dataclass(frozen=True, slots=True)
class Line:
    """One curve as drawn: values already transformed, `xs` never decreasing, `name` sanitized.

    `sign` is the character that marks it among several; by default, its index determines it. `doubt` describes its
    newest value if that cannot be drawn.
    """

    name: str
    xs: Sequence[float]
    levels: Levels
    sign: str = ""
    doubt: str = ""


class Chart(Widget):
    """A chart that is redrawn only when its data or its size changed.

    Args:
        symbols: The symbols that the terminal can show.
        id: As for every widget.
    """

    COMPONENT_CLASSES: ClassVar[set[str]] = {f"chart--{name}" for name in (*COLOURS, "dim", "title")}
    DEFAULT_CSS = "\n".join(
        ["Chart { background: $background; color: $foreground; height: 1fr; min-height: 4; }"]
        + [f"Chart > .chart--{name} {{ color: $text-{name}; }}" for name in COLOURS]
        + ["Chart > .chart--dim { color: $text-muted; }", "Chart > .chart--title { text-style: bold; }"]
    )

    ALLOW_SELECT = False  # dragging selects a part of the curve, not text

    class Looked(Message):
        """The mouse selected another part of the x axis."""

        def __init__(self, chart: Chart) -> None:
            super().__init__()
            self.chart = chart

        @property
        def control(self) -> Chart:
            return self.chart

    def __init__(self, symbols: Symbols, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self.symbols = symbols
        self.title = ""
        self.empty = "no points yet"
        self.lines: tuple[Line, ...] = ()
        self.logarithmic = False
        self.unit = "step"
        self._view: tuple[float, float] | None = None
        self._strips: list[Strip] = []
        self._held: tuple[int, int] | None = None
        """The pressed mouse button, and where it was pressed."""
        self._at = 0

    def show(
        self, title: str, lines: Sequence[Line], *, log: bool = False, unit: str = "step", empty: str = ""
    ) -> None:
        self.title, self.lines, self.logarithmic, self.unit = title, tuple(lines), log, unit
        self.empty = empty or self.empty
        self._redraw()

    # The visible range ----------------------------------------------------------------------------------------------

    @property
    def whole(self) -> tuple[float, float]:
        starts = [line.xs[0] for line in self.lines if len(line.xs)]
        ends = [line.xs[-1] for line in self.lines if len(line.xs)]
        return (min(starts), max(ends)) if starts else (0.0, 1.0)

    @property
    def chosen(self) -> tuple[float, float] | None:
        """The zoomed range; None if everything is shown, also when new points arrive."""
        return self._view

    @property
    def view(self) -> tuple[float, float]:
        return self._view or self.whole

    def zoom(self, factor: float, *, at: float = 0.5) -> None:
        """Show `factor` times as much, at most everything. The point at the fraction `at` of the width stays in place."""
        (low, high), (x0, x1) = self.whole, self.view
        wide = (x1 - x0) * factor
        if wide >= high - low:
            self.reset()
        elif wide > 0:
            start = max(low, min(high - wide, x0 + (x1 - x0 - wide) * at))
            self._look(start, start + wide)

    def pan(self, share: float) -> None:
        """Move by a fraction of the visible range."""
        (low, high), (x0, x1) = self.whole, self.view
        by = max(low - x0, min(high - x1, (x1 - x0) * share))
        if self._view is not None:
            self._look(x0 + by, x1 + by)

    def reset(self) -> None:
        self.look(None)

    def look(self, view: tuple[float, float] | None) -> None:
        """Show this part of the x axis, or all of it."""
        self._view = view
        self._redraw()

    def _look(self, x0: float, x1: float) -> None:
        low, high = self.whole
        self._view = (max(low, x0), min(high, x1))
        self._redraw()

    # The mouse ------------------------------------------------------------------------------------------------------

    def _share(self, x: int) -> float:
        """Return the position of a screen column in the plot, as a fraction from left to right."""
        return min(1.0, max(0.0, (x - LABEL) / max(1, self.size.width - LABEL - 1)))

    def on_mouse_down(self, event: events.MouseDown) -> None:
        if event.x >= LABEL and self.lines:
            self._held, self._at = (event.button, event.x), event.x
            self.capture_mouse()
            event.stop()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        if self._held is None:
            return
        button, start = self._held
        if button == 1:
            self._at = event.x
            self.refresh()
        elif self._view is not None and event.x != start:
            self.pan((start - event.x) / max(1, self.size.width - LABEL))
            self._held = (button, event.x)
        event.stop()

    def on_mouse_up(self, event: events.MouseUp) -> None:
        """Zoom to the range that was dragged with the left button."""
        if self._held is None:
            return
        (button, start), self._held = self._held, None
        self.release_mouse()
        self.refresh()
        event.stop()
        left, right = sorted((self._share(start), self._share(event.x)))
        if button == 1 and right > left:
            x0, x1 = self.view
            self.look((x0 + (x1 - x0) * left, x0 + (x1 - x0) * right))
        if button != 1 or right > left:
            self.post_message(self.Looked(self))

    def on_click(self, event: events.Click) -> None:
        if event.chain == 2 and self._view is not None:
            self.reset()
            self.post_message(self.Looked(self))

    def _scroll(self, event: events.MouseScrollUp | events.MouseScrollDown, factor: float, share: float) -> None:
        if event.shift or event.ctrl:
            self.pan(share)
        else:
            self.zoom(factor, at=self._share(event.x))
        event.stop()
        self.post_message(self.Looked(self))

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        self._scroll(event, 0.8, -0.1)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        self._scroll(event, 1.25, 0.1)

    def on_mouse_scroll_left(self, event: events.MouseScrollLeft) -> None:
        self.pan(-0.1)
        event.stop()
        self.post_message(self.Looked(self))

    def on_mouse_scroll_right(self, event: events.MouseScrollRight) -> None:
        self.pan(0.1)
        event.stop()
        self.post_message(self.Looked(self))

    # Drawing --------------------------------------------------------------------------------------------------------

    def notify_style_update(self) -> None:
        self._strips = []
        super().notify_style_update()

    def on_resize(self) -> None:
        self._redraw()

    def _redraw(self) -> None:
        self._strips = []
        self.refresh()

    def render_line(self, y: int) -> Strip:
        if len(self._strips) != self.size.height:
            self._strips = self._draw(self.size.width, self.size.height)
        strip = self._strips[y] if y < len(self._strips) else Strip.blank(self.size.width, self.rich_style)
        if self._held is None or self._held[0] != 1 or self._at == self._held[1] or not 0 < y < self.size.height - 1:
            return strip
        left, right = sorted((max(LABEL, self._held[1]), min(self.size.width - 1, max(LABEL, self._at))))
        width = self.size.width
        marked = strip.crop(left, right + 1).apply_style(MARKED)
        return Strip.join([strip.crop(0, left), marked, strip.crop(right + 1, width)])

    def _style(self, name: str) -> Style:
        return self.rich_style + self.get_component_rich_style(f"chart--{name}")

    def _draw(self, width: int, height: int) -> list[Strip]:
        plain = self.rich_style
        strips = [self._head(width)]
        x0, x1 = self.view
        found = [extent(line.levels, line.xs, x0, x1) for line in self.lines]
        extents = [each for each in found if each is not None]
        room, rows = width - LABEL, height - 2
        if not extents or room < 4 or rows < 1:
            doubts = ", ".join(line.doubt for line in self.lines if line.doubt)
            words = f"no finite values to draw: {doubts}" if doubts and room >= 4 and rows >= 1 else self.empty
            said = Strip([Segment("  " + self.symbols.text(words), self._style("dim"))])
            strips.append(said.adjust_cell_length(width, plain))
            return [*strips, *(Strip.blank(width, plain) for _ in range(height - 2))][:height]
        y0, y1 = min(low for low, _ in extents), max(high for _, high in extents)
        if y1 == y0:  # a constant is drawn in the middle
            y0, y1 = y0 - (abs(y0) * 0.05 or 1.0), y1 + (abs(y1) * 0.05 or 1.0)
        canvas, window = Canvas(room, rows), Window(x0, x1, y0, y1)
        if x1 <= x0:  # a single x is drawn in the middle
            window = Window(x0 - 1.0, x0 + 1.0, y0, y1)
        for owner, line in enumerate(self.lines):
            draw(canvas, line.xs, line.levels, window, owner)
            if len(self.lines) > 1:
                _name_curve(canvas, line, window, owner, _sign(line, owner))
            elif _is_lone(line, x0, x1):  # a single dot is hard to see
                _name_curve(canvas, line, window, owner, self.symbols.states["running"])
        for row in range(rows):
            label = self._label(y1 - (y1 - y0) * row / max(1, rows - 1)) if row % 4 == 0 or row == rows - 1 else ""
            segments = [Segment(f"{label:>{LABEL - 1}} ", self._style("dim"))]
            for text, owner in canvas.row(row, utf8=self.symbols.utf8):
                segments.append(Segment(text, plain if owner == 255 else self._style(COLOURS[owner % len(COLOURS)])))
            strips.append(Strip(segments).adjust_cell_length(width, plain))
        left, right = self._x(x0), self._x(x1)
        foot = " " * LABEL + (left + f"{right:>{max(0, room - len(left))}}" if x1 > x0 else f"{left:^{room}}")
        strips.append(Strip([Segment(foot, self._style("dim"))]).adjust_cell_length(width, plain))
        return strips[:height]

    def _head(self, width: int) -> Strip:
        segments = [Segment(f" {self.symbols.text(self.title)}", self._style("title"))]
        for owner, line in enumerate(self.lines):
            last = next((value for value in reversed(line.levels.values) if not math.isnan(value)), None)
            value = "" if last is None else f" {self._label(last).strip()}"
            value = f" {line.doubt}{f', before{value}' if value else ''}" if line.doubt else value
            most = max(10, width // len(self.lines) - 16)
            shown = line.name if len(line.name) <= most else line.name[: most - 1] + "…"
            name = f"  {_sign(line, owner)}{f' {shown}' if shown else ''}" if len(self.lines) > 1 else ""
            segments.append(Segment(self.symbols.text(name + value), self._style(COLOURS[owner % len(COLOURS)])))
        notes = [*(["log"] if self.logarithmic else []), *(["zoomed: 0 shows all"] if self._view else [])]
        if notes:
            segments.append(Segment(f"  ({', '.join(notes)})", self._style("dim")))
        return Strip(segments).adjust_cell_length(width, self.rich_style)

    def _label(self, value: float) -> str:
        value = 10**value if self.logarithmic else value
        if value == 0 or 1e-3 <= abs(value) < 1e4:
            return f"{value:.4g}"
        return f"{value / 1000:,.4g}k" if 1e4 <= abs(value) < 1e6 else f"{value:.2e}"

    def _x(self, value: float) -> str:
        if self.unit == "clock":
            first, last = self.view
            return time.strftime("%a %H:%M" if last - first > 80_000 else "%H:%M:%S", time.localtime(value))
        if self.unit == "step":
            return f"{value:,.0f}"
        if self.unit == "time":
            return f"{value / 3600:.2f} h" if value >= 3600 else f"{value:.0f} s"
        return money(value, self.unit) if self.unit.isupper() else f"{value:,.0f} {self.unit}"


def _sign(line: Line, owner: int) -> str:
    return line.sign or NAMES[owner % len(NAMES)]


def _is_lone(line: Line, x0: float, x1: float) -> bool:
    """Whether exactly one point lies between two places."""
    first, last = bisect_left(line.xs, x0), min(len(line.levels), bisect_right(line.xs, x1))
    return (
        last - first <= LOOKED_THROUGH and sum(not math.isnan(value) for value in line.levels.values[first:last]) == 1
    )


def _name_curve(canvas: Canvas, line: Line, window: Window, owner: int, sign: str) -> None:
    """Put the curve's letter at its end: colour alone does not distinguish curves."""
    last = min(len(line.levels), bisect_right(line.xs, window.x1))
    for index in range(last - 1, -1, -1):
        value = line.levels.values[index]
        if math.isnan(value):
            continue
        x = (line.xs[index] - window.x0) / (window.x1 - window.x0 or 1.0) * (canvas.width * 2 - 1)
        y = (window.y1 - value) / (window.y1 - window.y0) * (canvas.height * 4 - 1)
        canvas.letter(round(x), round(y), sign, owner)
        return
