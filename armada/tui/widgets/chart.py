"""A chart: axes with a grid, one or several curves, zoom, pan and a crosshair."""

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
from armada.tui import ticks
from armada.tui.curves import Levels, nearest
from armada.tui.theme import CURVES
from armada.tui.widgets import frame
from armada.tui.widgets.braille import Canvas, Window, draw, extent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual import events

    from armada.tui.symbols import Symbols

LABEL = 8
ROWS_PER_TICK = 3
COLUMNS_PER_TICK = 14
NAMES = "abcdefghij"
LOOKED_THROUGH = 1000
"""With more points than these, a search for a second visible one is unnecessary."""
MARKED = Style(reverse=True)
LIT = Style(bold=True, reverse=True)
COLOURS = tuple(f"curve-{place}" for place in range(1, CURVES + 1))


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

    COMPONENT_CLASSES: ClassVar[set[str]] = {f"chart--{name}" for name in (*COLOURS, "dim", "title", "grid")}
    DEFAULT_CSS = "\n".join(
        ["Chart { background: $background; color: $foreground; height: 1fr; min-height: 4; }"]
        + [f"Chart > .chart--{name} {{ color: ${name}; }}" for name in COLOURS]
        + ["Chart > .chart--dim { color: $text-muted; }", "Chart > .chart--title { text-style: bold; }"]
        + ["Chart > .chart--grid { color: $frame; }"]
    )

    ALLOW_SELECT = False  # dragging selects a part of the curve, not text

    class Crossed(Message):
        """The mouse moved the crosshair."""

        def __init__(self, chart: Chart) -> None:
            super().__init__()
            self.chart = chart

        @property
        def control(self) -> Chart:
            return self.chart

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
        self._cross: float | None = None
        """Where the crosshair is, on the x axis."""
        self._window: Window | None = None
        """The part of the plane that is drawn; None if no curve is."""

    def show(
        self, title: str, lines: Sequence[Line], *, log: bool = False, unit: str = "step", empty: str = ""
    ) -> None:
        self.title, self.lines, self.logarithmic, self.unit = title, tuple(lines), log, unit
        self.empty = empty or self.empty
        if self.has_class(frame.FRAME):
            frame.title(self, self.symbols.text(title))
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

    # The crosshair ------------------------------------------------------------------------------------------------------

    @property
    def cross(self) -> float | None:
        """The place of the crosshair on the x axis; None if there is none."""
        return self._cross

    def put_cross(self, place: float | None) -> None:
        """Put the crosshair at a place on the x axis, or take it away."""
        if place != self._cross:
            self._cross = place
            self.refresh()  # it is drawn over the kept lines

    def step_cross(self, by: int) -> float | None:
        """Return the place so many columns from the crosshair, or from the newest point; None if there are no points."""
        x0, x1 = self.view
        column = (x1 - x0) / max(1, self.size.width - LABEL - 1)
        at = self._cross if self._cross is not None and x0 <= self._cross <= x1 else x1 + (column if by < 0 else 0)
        return min(x1, max(x0, at + by * column)) if self.lines else None

    # The mouse ------------------------------------------------------------------------------------------------------

    def _x_of(self, event: events.MouseEvent) -> int:
        """Return the column of an event inside the frame."""
        return event.x - self.content_offset.x

    def _share(self, x: int) -> float:
        """Return the position of a screen column in the plot, as a fraction from left to right."""
        return min(1.0, max(0.0, (x - LABEL) / max(1, self.size.width - LABEL - 1)))

    def on_mouse_down(self, event: events.MouseDown) -> None:
        if (x := self._x_of(event)) >= LABEL and self.lines:
            self._held, self._at = (event.button, x), x
            self.capture_mouse()
            event.stop()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        x = self._x_of(event)
        if self._held is None:
            if self.lines and x >= LABEL:
                self._move_cross(x)
            return
        button, start = self._held
        if button == 1:
            self._at = x
            self.refresh()
        elif self._view is not None and x != start:
            self.pan((start - x) / max(1, self.size.width - LABEL))
            self._held = (button, x)
        event.stop()

    def _move_cross(self, x: int) -> None:
        x0, x1 = self.view
        self.put_cross(x0 + (x1 - x0) * self._share(x))
        self.post_message(self.Crossed(self))

    def on_leave(self) -> None:
        if self._cross is not None:
            self.put_cross(None)
            self.post_message(self.Crossed(self))

    def on_mouse_up(self, event: events.MouseUp) -> None:
        """Zoom to the range that was dragged with the left button."""
        if self._held is None:
            return
        (button, start), self._held = self._held, None
        self.release_mouse()
        self.refresh()
        event.stop()
        left, right = sorted((self._share(start), self._share(self._x_of(event))))
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
            self.zoom(factor, at=self._share(self._x_of(event)))
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
        if self._cross is not None and self._window is not None:
            column = self._cross_column(self._window, self.size.width - LABEL)
            if y == 0:
                strip = self._head(self.size.width)
            elif column is not None and y < self.size.height - 1:
                strip = self._with_cross(strip, LABEL + column)
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
        self._window = None
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
        self._window = window
        strips += self._rows(canvas, self._marks(window, rows))
        strips.append(self._foot(room))
        return strips[:height]

    def _marks(self, window: Window, rows: int) -> dict[int, str]:
        """Return the rows of the ticks on the y axis, and their labels."""
        most = max(1, rows // ROWS_PER_TICK)
        found = (ticks.log_ticks if self.logarithmic else ticks.ticks)(window.y0, window.y1, most)
        step, largest = ticks.distance(found), max(abs(window.y0), abs(window.y1))
        marks: dict[int, str] = {}
        for value in found:
            row = round((window.y1 - value) / (window.y1 - window.y0) * (rows * 4 - 1)) // 4
            near = row in marks or (self.logarithmic and (row - 1 in marks or row + 1 in marks))
            if 0 <= row < rows and not near:
                marks[row] = ticks.figure(10**value) if self.logarithmic else ticks.figure(value, step, largest)
        return marks

    def _rows(self, canvas: Canvas, marks: dict[int, str]) -> list[Strip]:
        """Draw the lines of the plot: labels, and the grid behind the curves."""
        plain, grid, dim = self.rich_style, self._style("grid"), self._style("dim")
        colours = [self._style(name) for name in COLOURS]
        strips = []
        for row in range(canvas.height):
            segments = [Segment(f"{marks.get(row, ''):>{LABEL - 1}} ", dim)]
            for text, owner in canvas.row(row, utf8=self.symbols.utf8):
                if owner == 255:
                    segments.append(
                        Segment(self.symbols.grid * len(text), grid) if row in marks else Segment(text, plain)
                    )
                else:
                    segments.append(Segment(text, colours[owner % len(colours)]))
            strips.append(Strip(segments).adjust_cell_length(canvas.width + LABEL, plain))
        return strips

    def _cross_column(self, window: Window, width: int) -> int | None:
        if self._cross is None or not window.x0 <= self._cross <= window.x1:
            return None
        return round((self._cross - window.x0) / (window.x1 - window.x0) * (width - 1))

    def _with_cross(self, strip: Strip, column: int) -> Strip:
        """Draw the crosshair into a line; where a curve is, the curve stays, lit."""
        before, here, after = strip.divide([column, column + 1, strip.cell_length])
        text = here.text
        if text in (" ", self.symbols.grid):
            here = Strip([Segment("│" if self.symbols.utf8 else "|", self._style("dim"))])
        else:
            here = here.apply_style(LIT)
        return Strip.join([before, here, after])

    def _foot(self, room: int) -> Strip:
        """Draw the labels of the x axis, each below its place, as many as fit beside each other."""
        dim, (x0, x1) = self._style("dim"), self.view
        if x1 <= x0:
            foot = f"{self._x(x0, 0.0):^{room}}"
            return Strip([Segment(" " * LABEL + foot, dim)]).adjust_cell_length(room + LABEL, self.rich_style)
        cells = [" "] * room
        most = max(1, room // COLUMNS_PER_TICK)
        of_time = self.unit in ("clock", "time")
        found = ticks.time_ticks(x0, x1, most, local=self.unit == "clock") if of_time else ticks.ticks(x0, x1, most)
        if self.unit == "step":
            found = [place for place in found if place == round(place)]
        step = ticks.distance(found)
        ends = 0
        for place in found:
            label = self._x(place, step)
            column = round((place - x0) / (x1 - x0) * (room - 1))
            start = min(room - len(label), max(0, column - len(label) // 2))
            if start >= ends and start + len(label) <= room:
                cells[start : start + len(label)] = label
                ends = start + len(label) + 2
        foot = self.symbols.text("".join(cells))
        return Strip([Segment(" " * LABEL + foot, dim)]).adjust_cell_length(room + LABEL, self.rich_style)

    def _head(self, width: int) -> Strip:
        """Draw the legend: each curve with its newest value, or with its value at the crosshair."""
        framed = self.has_class(frame.FRAME) and self.styles.border_top[0] != ""
        segments = [Segment(" " if framed else f" {self.symbols.text(self.title)} ", self._style("title"))]
        if self._cross is not None and self.lines:
            place = (
                f"at {self.unit} {self._place(self._cross)} "
                if self.unit == "step"
                else f"at {self._place(self._cross)} "
            )
            segments.append(Segment(self.symbols.text(place), self._style("title")))
        for owner, line in enumerate(self.lines):
            segments.append(
                Segment(self.symbols.text(self._said(owner, line, width)), self._style(COLOURS[owner % len(COLOURS)]))
            )
        if (
            len(self.lines) == 1
            and self._cross is None
            and not self.lines[0].doubt
            and (best := self._range(self.lines[0]))
        ):
            segments.append(Segment(self.symbols.text(best), self._style("dim")))
        notes = [*(["log"] if self.logarithmic else []), *(["zoomed: 0 shows all"] if self._view else [])]
        if notes:
            segments.append(Segment(f"  ({', '.join(notes)})", self._style("dim")))
        return Strip(segments).adjust_cell_length(width, self.rich_style)

    def _said(self, owner: int, line: Line, width: int) -> str:
        if self._cross is not None:
            at = nearest(line.xs, line.levels, self._cross)
            value = " —" if at is None else f" {self._label(at)}"
        else:
            last = next((value for value in reversed(line.levels.values) if not math.isnan(value)), None)
            value = "" if last is None else f" {self._label(last)}"
            value = f" {line.doubt}{f', before{value}' if value else ''}" if line.doubt else value
        most = max(10, width // len(self.lines) - 16)
        shown = line.name if len(line.name) <= most else line.name[: most - 1] + "…"
        name = f"  {_sign(line, owner)}{f' {shown}' if shown else ''}" if len(self.lines) > 1 else ""
        return (name + value).removeprefix(" " if len(self.lines) == 1 else "")

    def _range(self, line: Line) -> str:
        """Say between which values the visible part lies."""
        found = extent(line.levels, line.xs, *self.view)
        if found is None or found[0] == found[1]:
            return ""
        return f"  lowest {self._label(found[0])} · highest {self._label(found[1])}"

    def _label(self, value: float) -> str:
        return ticks.figure(10**value if self.logarithmic else value)

    def _place(self, value: float) -> str:
        """Write the place of the crosshair, exactly."""
        if self.unit == "clock":
            return time.strftime("%a %H:%M:%S", time.localtime(value))
        return f"{value:,.0f}" if self.unit == "step" else self._x(value, 0.0)

    def _x(self, value: float, step: float) -> str:
        if self.unit == "clock":
            first, last = self.view
            wide = last - first
            shown = "%a %H:%M" if wide > 80_000 else "%H:%M" if wide > 300 else "%H:%M:%S"
            return time.strftime(shown, time.localtime(value))
        if self.unit == "time":
            return ticks.lasted(value)
        if self.unit.isupper():
            return money(value, self.unit)
        return ticks.figure(value, step, max(map(abs, self.view))) + ("" if self.unit == "step" else f" {self.unit}")


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
