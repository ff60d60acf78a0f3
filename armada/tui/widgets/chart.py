"""A chart: axes with a grid, one or several curves, and what the crosshair shows."""

from __future__ import annotations

import math
import textwrap
from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, ClassVar

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from armada.tui import ticks
from armada.tui.curves import ROUNDING, is_constant, nearest
from armada.tui.theme import CURVES
from armada.tui.widgets import chart_axes as axes
from armada.tui.widgets import frame
from armada.tui.widgets.braille import EMPTY, Canvas, Window, dot, draw, extent, places
from armada.tui.widgets.chart_plane import LABEL, Line, Plane
from armada.units import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from armada.tui.curves import Levels
    from armada.tui.symbols import Symbols

NAMES = "abcdefghijklmnopqrst"
BEHIND, RESUMED, GAP = 250, 251, 252
"""What else can own a cell besides a curve."""
NO_POINTS = "no points yet"
LARGEST = 8e307
"""Values further from zero are drawn here: the difference of two larger ones is infinite."""
LOOKED_THROUGH = 1000
"""With more points than these, a search for a second visible one is unnecessary."""
LOOKED_AFTER = 100
"""In so many points after a mark the height of its curve is looked for, if there is none before it."""
ALONG = 16
"""Without colours, the letter of each of several curves stands on it at every so many columns; on dashed ones always."""
MARKED = Style(reverse=True)
LIT = Style(bold=True, reverse=True)
BOLD = Style(bold=True)
COLOURS = tuple(f"curve-{place}" for place in range(1, CURVES + 1))


class Chart(Plane):
    """A chart that is redrawn only when its data or its size changed.

    Args:
        symbols: The symbols that the terminal can show.
        id: As for every widget.
        classes: As for every widget.
    """

    ends_at_plot: ClassVar[bool] = False
    """Whether the plot takes the line of the x axis, if it would have one row alone: others beside it have that axis."""
    COMPONENT_CLASSES: ClassVar[set[str]] = {f"chart--{name}" for name in (*COLOURS, "dim", "title", "grid", "gap")}
    DEFAULT_CSS = "\n".join(
        ["Chart { background: $background; color: $foreground; height: 1fr; min-height: 4; }"]
        + [f"Chart > .chart--{name} {{ color: ${name}; }}" for name in COLOURS]
        + ["Chart > .chart--dim { color: $text-muted; }", "Chart > .chart--title { text-style: bold; }"]
        + ["Chart > .chart--grid { color: $frame; }", "Chart > .chart--gap { color: $text-error; text-style: bold; }"]
    )

    def __init__(self, symbols: Symbols, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id, classes=classes)
        self.symbols = symbols
        self.title = ""
        self.empty = NO_POINTS
        self.logarithmic = False
        self.unit = "step"
        self.legend = True
        """Whether the first line has the values of several curves."""
        self.digits: int | None = None
        """Digits after the point in the legend; None for as many as the value needs."""
        self._window: Window | None = None
        """The part of the plane that is drawn; None if no curve is."""
        self._left_out = 0
        """How many points in sight a logarithmic scale cannot show."""
        self._styles: dict[str, Style] = {}
        """Each that was used since the chart was styled: Textual computes them from all that is around the chart."""

    def forget(self) -> None:
        super().forget()
        self._window, self._left_out = None, 0
        self.show("", (), empty=NO_POINTS)

    def show(
        self,
        title: str,
        lines: Sequence[Line],
        *,
        log: bool = False,
        unit: str = "step",
        empty: str = "",
    ) -> None:
        """Show curves.

        Args:
            title: Sanitized.
            lines: The curves; the last one is drawn over the others.
            log: The values are exponents.
            unit: Of the x axis; see `axes.foot`.
            empty: Why there are no curves.
        """
        self.title, self.lines, self.logarithmic, self.unit = title, tuple(lines), log, unit
        self.empty = empty or self.empty
        if self.has_class(frame.FRAME):
            frame.title(self, self.symbols.text(title))
        self._redraw()

    # Drawing --------------------------------------------------------------------------------------------------------

    def notify_style_update(self) -> None:
        self._strips = []
        self._styles.clear()
        super().notify_style_update()

    def on_resize(self) -> None:
        self._redraw()

    def render_line(self, y: int) -> Strip:
        if len(self._strips) != self.size.height:
            self._strips = self._draw(self.size.width, self.size.height)
        strip = self._strips[y] if y < len(self._strips) else Strip.blank(self.size.width, self.rich_style)
        if self._cross is not None and self._window is not None:
            column = self._column(self._cross, self._window, self.size.width - LABEL)
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
        found = self._styles.get(name)
        if found is None:
            found = self._styles[name] = self.rich_style + self.get_component_rich_style(f"chart--{name}")
        return found

    def _draw(self, width: int, height: int) -> list[Strip]:
        plain = self.rich_style
        self._window = None
        x0, x1 = self.view
        measured = [(line.measured, line.xs) for line in self.lines]
        self._left_out = sum(
            levels.not_positive(*places(levels, xs, x0, x1)) for levels, xs in measured if levels is not None
        )
        strips = [self._head(width)]
        found = [extent(line.levels, line.xs, x0, x1) for line in self.lines]
        extents = [each for each in found if each is not None]
        room, rows = width - LABEL, height - 2
        rows = 2 if rows == 1 and self.ends_at_plot else rows  # then strips[:height] has no foot
        if not extents or room < 4 or rows < 1:
            doubts = ", ".join(line.doubt for line in self.lines if line.doubt)
            if extents or (doubts and (room < 4 or rows < 1)):
                words = ""  # there is no room for them
            elif doubts:
                words = f"no finite values to draw: {doubts}"
            elif self._view is not None and self.has_points:
                words = "no points in this part: 0 shows all"
            else:
                words = self.empty
            for said in textwrap.wrap(self.symbols.text(words), max(1, width - 3)):
                strip = Strip([Segment(f"  {said}", self._style("dim"))])
                strips.append(strip.adjust_cell_length(width, plain))
            return [*strips, *(Strip.blank(width, plain) for _ in range(height))][:height]
        y0, y1 = self._heights(extents)
        canvas, window = Canvas(room, rows), Window(x0, x1, y0, y1)
        if x1 <= x0:  # a single x is drawn in the middle
            window = Window(x0 - 1.0, x0 + 1.0, y0, y1)
        window, marks = axes.y_axis(window, rows, log=self.logarithmic)
        for line in self.lines:
            if line.behind is not None:
                draw(canvas, line.xs, line.behind, window, BEHIND)
        if len(self.lines) == 1:
            self._mark_below(canvas, window)
        for owner, line in enumerate(self.lines):
            canvas.dash(owner, self._colour(owner) // CURVES)
            draw(canvas, line.xs, line.levels, window, owner)
            if len(self.lines) > 1:
                _name_curve(canvas, line, window, owner, _sign(line, owner))
            elif _is_lone(line, x0, x1):  # a single dot is hard to see
                _name_curve(canvas, line, window, owner, self.symbols.states["running"])
        if len(self.lines) > 1:
            self._mark_each(canvas, window)
            self._name_along(canvas)
        self._window = window
        strips += self._rows(canvas, marks)
        strips.append(self._foot(room))
        return strips[:height]

    def _name_along(self, canvas: Canvas) -> None:
        """Put the letters of curves along them that no colour or no solid line tells from the others."""
        for owner, line in enumerate(self.lines):
            if self.app.no_color or canvas.is_dashed(owner):
                canvas.name_along(_sign(line, owner), owner, 2 + 3 * owner % ALONG, ALONG)

    def _heights(self, extents: list[tuple[float, float]]) -> tuple[float, float]:
        """Return the lowest and the highest value that is drawn; what is behind a curve adds a fifth at most."""
        y0 = max(-LARGEST, min(low for low, _ in extents))
        y1 = min(LARGEST, max(high for _, high in extents))
        is_flat = is_constant(y0, y1, log=self.logarithmic)
        room = 0.0 if is_flat else (y1 - y0) / 5
        for line in self.lines:
            behind = extent(line.behind, line.xs, *self.view) if line.behind is not None and room > 0 else None
            if behind is not None:
                y0, y1 = min(y0, max(behind[0], y0 - room)), max(y1, min(behind[1], y1 + room))
        if is_flat:  # a constant is drawn in the middle
            middle = y0 + (y1 - y0) / 2
            room = 1.0 if self.logarithmic and abs(middle) < ROUNDING else abs(middle) * 0.05 or 1.0
            y0, y1 = middle - room, middle + room
        return y0, y1

    def _mark_below(self, canvas: Canvas, window: Window) -> None:
        """Put the signs of the marks of a single curve into the lowest row, one in each column."""
        owners, columns = {"gap": GAP, "resumed": RESUMED}, set()
        for mark in self.lines[0].marks:
            column = self._column(mark.x, window, canvas.width)
            if column is not None and column not in columns:
                columns.add(column)
                canvas.letter(column * 2, canvas.height * 4 - 1, self.symbols.marks[mark.kind], owners[mark.kind])

    def _mark_each(self, canvas: Canvas, window: Window) -> None:
        """Put the signs of the marks onto each of several curves, in its colour and after its letter; the last curve comes first."""
        for owner, line in reversed(list(enumerate(self.lines))):
            drawn = set()
            for mark in line.marks:
                column = self._column(mark.x, window, canvas.width)
                if column is None or (column, mark.kind) in drawn:
                    continue
                drawn.add((column, mark.kind))
                value = value_beside(line, mark.point)
                share = (window.y1 - value) / (window.y1 - window.y0) if value is not None else 1.0
                canvas.word(
                    column * 2, dot(share, canvas.height * 4), _sign(line, owner) + self.symbols.marks[mark.kind], owner
                )

    def _rows(self, canvas: Canvas, marks: dict[int, str]) -> list[Strip]:
        """Draw the lines of the plot: labels, and the grid behind the curves."""
        plain, grid, dim = self.rich_style, self._style("grid"), self._style("dim")
        colours = {owner: self._curve_style(owner) for owner in range(len(self.lines))}
        colours |= {BEHIND: dim, RESUMED: dim, GAP: self._style("gap")}
        strips = []
        for row in range(canvas.height):
            segments = [Segment(f"{marks.get(row, ''):>{LABEL - 1}} ", dim)]
            for text, owner in canvas.row(row, utf8=self.symbols.utf8):
                if owner == EMPTY:
                    segments.append(
                        Segment(self.symbols.grid * len(text), grid) if row in marks else Segment(text, plain)
                    )
                else:
                    segments.append(Segment(text, colours[owner]))
            strips.append(Strip(segments).adjust_cell_length(canvas.width + LABEL, plain))
        return strips

    def _colour(self, owner: int) -> int:
        """Return the number of a curve's colour; after the last colour, they begin again, with dashes."""
        colour = self.lines[owner].colour
        return owner if colour is None else colour

    def _curve_style(self, owner: int) -> Style:
        found = self._style(COLOURS[self._colour(owner) % len(COLOURS)])
        return found + BOLD if self.lines[owner].lit else found

    @staticmethod
    def _column(place: float, window: Window, width: int) -> int | None:
        """Return the column of a place on the x axis; None if it is not visible."""
        if not window.x0 <= place <= window.x1:
            return None
        return round((place - window.x0) / (window.x1 - window.x0) * (width - 1))

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
        """Draw the labels of the x axis, each below its place."""
        foot = self.symbols.text(axes.foot(self.view, self.unit, room))
        return Strip([Segment(" " * LABEL + foot, self._style("dim"))]).adjust_cell_length(
            room + LABEL, self.rich_style
        )

    def _head(self, width: int) -> Strip:
        """Draw the legend: each curve with its newest value, or with its value at the crosshair."""
        segments = self._beginning()
        used = sum(segment.cell_length for segment in segments)
        shown = self.lines if self.legend or len(self.lines) == 1 else ()
        single = [self._said(0, self.lines[0], width)] if len(self.lines) == 1 else []
        notes = self.symbols.text(self._notes(width - used - sum(map(cell_len, single))))
        room = width - cell_len(notes)
        for owner, line in enumerate(shown):
            said = self.symbols.text(self._said(owner, line, width))
            used += cell_len(said)
            if owner and used > room - (3 if owner + 1 < len(shown) else 0):
                segments.append(Segment(self.symbols.text(" …"), self._style("dim")))
                break
            segments += self._coloured(said, owner, line)
        if len(self.lines) == 1:
            forms = map(self.symbols.text, self._beside(self.lines[0]))
            fitting = next((form for form in forms if cell_len(form) <= room - used), "")
            segments.append(Segment(fitting, self._style("dim")))
        segments.append(Segment(notes, self._style("dim")))
        return Strip(segments).adjust_cell_length(width, self.rich_style)

    def _coloured(self, said: str, owner: int, line: Line) -> Iterator[Segment]:
        """Colour what is said of a curve: that its newest value is not finite, in the colour of errors."""
        begins, doubt, ends = said.rpartition(self.symbols.text(line.doubt)) if line.is_not_finite else ("", "", said)
        for words, style in (
            (begins, self._curve_style(owner)),
            (doubt, self._style("gap")),
            (ends, self._curve_style(owner)),
        ):
            if words:
                yield Segment(words, style)

    def _beginning(self) -> list[Segment]:
        """Return the title, unless it is in the frame, and where the crosshair is."""
        framed = self.has_class(frame.FRAME) and self.styles.border_top[0] != ""
        segments = [Segment(" " if framed else f" {self.symbols.text(self.title)} ", self._style("title"))]
        if self._cross is not None and self.lines:
            place = f"at {axes.place_text(self._cross, self.unit, self.view)} "
            segments.append(Segment(self.symbols.text(place), self._style("title")))
        return segments

    def _notes(self, room: int) -> str:
        """Say what the signs mean, and that only a part is shown; what is needed least is left out, none is cut off."""
        kinds = {mark.kind for line in self.lines for mark in line.marks}
        zoomed = ["zoomed: 0 shows all"] if self._view else []
        signs = [
            f"{self.symbols.marks[kind]} {word}"
            for kind, word in (("gap", "NaN"), ("resumed", "resumed"))
            if kind in kinds
        ]
        raw = ["values not smoothed"] if len(self.lines) > 1 and self.legend and self.is_smoothed else []
        shown = ["log"] if self.logarithmic else []
        below = f"{counted(self._left_out, 'point')} not above 0 left out"
        needed = [*zoomed, *([below] if self._left_out else []), *signs, *shown, *raw]
        while needed:
            ordered = [*(each for each in shown if each in needed), *(each for each in needed if each not in shown)]
            if len(words := f"  ({', '.join(ordered)})") <= room:
                return words
            needed.pop()
        return ""

    @property
    def is_smoothed(self) -> bool:
        return any(line.behind is not None for line in self.lines)

    def _value(self, line: Line, levels: Levels) -> float | None:
        """Return the value at the crosshair, or the newest one."""
        if self._cross is not None:
            return nearest(line.xs, levels, self._cross)
        values = levels.values
        if line.newest is not None and not math.isnan(values[line.newest]):
            return values[line.newest]
        return next((value for value in reversed(values) if not math.isnan(value)), None)

    def _said(self, owner: int, line: Line, width: int) -> str:
        """Return a curve's name and value: of a smoothed one the value that was measured, as all figures of runs are."""
        if self._cross is not None and line.measured is not None:
            at = nearest(line.xs, line.measured, self._cross)
            shown = "" if at is None else self._figure(at)
        else:
            at = self._value(line, line.levels if line.behind is None else line.behind)
            shown = "" if at is None else self._label(at)
        raw = "raw " if line.behind is not None and len(self.lines) == 1 else ""
        value = f" {raw}{shown}" if shown else ""
        if self._cross is not None:
            value = value or " —"
        elif line.doubt:
            value = f" {line.doubt}{f', before{value}' if value else ''}"
        most = max(10, width // len(self.lines) - 16)
        named = self.symbols.shortened(line.name, most)
        name = f"  {_sign(line, owner)}{f' {named}' if named else ''}" if len(self.lines) > 1 else ""
        return (name + value).removeprefix(" " if len(self.lines) == 1 else "")

    def _beside(self, line: Line) -> list[str]:
        """Say between which values the visible part of a single curve lies, and the same of the smoothed one; the longest form first."""
        now = self._value(line, line.levels) if line.behind is not None else None
        smooth = "" if now is None else f"  smoothed {self._label(now)}"
        if self._cross is not None or line.doubt:
            return [smooth]
        found = extent(line.measured or line.behind or line.levels, line.xs, *self.view)
        if found is None or is_constant(*found, log=self.logarithmic and line.measured is None):
            return [smooth]
        low, high = map(self._label if line.measured is None else self._figure, found)
        forms = [f"  lowest {low} · highest {high}", f"  lowest {low}"]
        if not smooth:
            return forms
        ends = extent(line.levels, line.xs, *self.view)
        lowest, highest = map(self._label, ends) if ends is not None else ("—", "—")
        more = (f"{smooth}, lowest {lowest} · highest {highest}", f"{smooth}, lowest {lowest}", smooth)
        return [*(f"{forms[0]}{each}" for each in more), *forms]

    def _label(self, value: float) -> str:
        return self._figure(ticks.linear(value) if self.logarithmic else value)

    def _figure(self, value: float) -> str:
        return ticks.figure(value) if self.digits is None else f"{value:,.{self.digits}f}"


def _sign(line: Line, owner: int) -> str:
    return line.sign or NAMES[owner % len(NAMES)]


def value_beside(line: Line, index: int) -> float | None:
    """Return the height of the curve right before a point, or soon after it; None if it has none there."""
    values = line.levels.values
    near = values[max(0, index - 1) : index + LOOKED_AFTER]
    return next((value for value in near if not math.isnan(value)), None)


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
        x = dot((line.xs[index] - window.x0) / (window.x1 - window.x0 or 1.0), canvas.width * 2)
        y = dot((window.y1 - value) / (window.y1 - window.y0), canvas.height * 4)
        canvas.letter(x, y, sign, owner)
        return
