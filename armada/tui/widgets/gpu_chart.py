"""A chart of a host's GPUs: curves of a few; of more, a strip for each where they have room, else how far they lie apart."""

from __future__ import annotations

import math
import statistics
from array import array
from bisect import bisect_left
from typing import TYPE_CHECKING, ClassVar

from rich.segment import Segment
from textual.strip import Strip

from armada.tui import heat
from armada.tui.curves import NAN, Levels
from armada.tui.gpu_strips import TALLEST
from armada.tui.widgets.braille import Window
from armada.tui.widgets.chart import Chart
from armada.tui.widgets.chart_plane import LABEL, Line

if TYPE_CHECKING:
    from collections.abc import Sequence

FEW = 3
"""So many curves over each other can be told apart."""
EDGES = 2
"""The lines of a chart above and below its plot."""
APART = 0.25
"""What a full strip of several lines leaves free of its first one, so that strips do not melt."""
BUCKETS = 1000
"""GPUs are read one after another: what lies so near on the x axis is one moment."""


class GpuChart(Chart):
    """Curves, strips, or the highest, median and lowest, whichever can be told apart in the chart's size."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {f"chart--{name}" for name in heat.STYLES}
    DEFAULT_CSS = heat.css_of("GpuChart", "chart")

    ends_at_plot = True
    gpus: tuple[Line, ...] = ()
    """A curve for each GPU; `lines` are those that are drawn."""
    numbers: tuple[str, ...] = ()
    """The number of each."""
    scale: tuple[float, float] = (0.0, 1.0)
    """The values of an empty strip and of a full one."""

    def show_gpus(
        self, title: str, gpus: Sequence[Line], numbers: tuple[str, ...], scale: tuple[float, float], empty: str
    ) -> None:
        """Show GPUs.

        Args:
            title: Sanitized.
            gpus: A curve for each.
            numbers: The number of each.
            scale: The values of an empty strip and of a full one.
            empty: Why there are no curves.
        """
        self.gpus, self.numbers, self.scale = tuple(gpus), numbers, scale
        self.show(title, self._fitting, unit="clock", empty=empty)

    def forget(self) -> None:
        self.gpus = ()
        super().forget()

    def on_resize(self) -> None:
        self.lines = self._fitting
        self._redraw()

    @property
    def has_strips(self) -> bool:
        """Whether each GPU has a strip: there are many, and they have room."""
        return FEW < len(self.gpus) <= self.size.height - EDGES

    @property
    def _fitting(self) -> tuple[Line, ...]:
        return self.gpus if len(self.gpus) <= FEW or self.has_strips else spread(self.gpus)

    def put_cross(self, place: float | None) -> None:
        if place != self._cross and self.has_strips:
            self._strips = []  # the values beside the strips are those at the crosshair
        super().put_cross(place)

    def _draw(self, width: int, height: int) -> list[Strip]:
        room = width - LABEL
        if not self.has_strips or not self.has_points or room < 2:
            return super()._draw(width, height)
        x0, x1 = self.view
        self._window = Window(x0, x1, *self.scale) if x1 > x0 else Window(x0 - 1.0, x0 + 1.0, *self.scale)
        spare = height - EDGES
        rows = max(1, min(TALLEST, spare // len(self.gpus)))
        drawn = [self._head(width)]
        is_apart = (spare + 1) // len(self.gpus) > rows
        for number, line in zip(self.numbers, self.gpus, strict=True):
            if is_apart and len(drawn) > 1:
                drawn.append(Strip.blank(width, self.rich_style))
            drawn += self._strip_of(number, line, self._window, room, rows)
        drawn += [Strip.blank(width, self.rich_style)] * (height - 1 - len(drawn))
        return [*drawn[: height - 1], self._foot(room)]

    def _strip_of(self, number: str, line: Line, window: Window, room: int, rows: int) -> list[Strip]:
        """Draw a GPU: its number, its value now or at the crosshair, and a strip of it over time."""
        plain, dim = self.rich_style, self._style("dim")
        low, high = self.scale
        shares = [None if v is None else (v - low) / (high - low) for v in columns_of(line, window, room)]
        lower = [None if share is None else share * (rows - APART) / rows for share in shares]
        texts = [self.symbols.strip(shares)] if rows == 1 else self.symbols.strips(lower, rows)
        at = self._value(line, line.levels)
        value = "—" if at is None else self._label(at)
        made = []
        for row, text in enumerate(texts):
            label = f"{number:>2}{self.symbols.text(value):>5} " if row == 0 else " " * LABEL
            segments = [Segment(label, plain if row == 0 else dim)]
            segments += [
                Segment(part, plain if name == "plain" else self._style(name))
                for part, name in heat.heated(text, shares)
            ]
            made.append(Strip(segments).adjust_cell_length(room + LABEL, plain))
        return made

    def _head(self, width: int) -> Strip:
        if not self.has_strips:
            return super()._head(width)
        segments = self._beginning()
        if self._cross is None:
            low, high = map(self._label, self.scale)
            segments.append(Segment(f"{low} to {high}", self._style("dim")))
        segments.append(Segment("  (zoomed: 0 shows all)" if self._view else "", self._style("dim")))
        return Strip(segments).adjust_cell_length(width, self.rich_style)


def columns_of(line: Line, window: Window, room: int) -> list[float | None]:
    """Return the mean of a curve in each column of a plot; between two points the earlier one holds, and a gap is None."""
    xs, values, wide = line.xs, line.levels.values, (window.x1 - window.x0) / max(1, room - 1)
    start = bisect_left(xs, window.x0 - wide / 2)
    held = values[start - 1] if start else NAN
    means: list[float | None] = []
    for column in range(room):
        end = bisect_left(xs, window.x0 + (column + 0.5) * wide, start)
        part = values[start:end]
        known = [value for value in part if not math.isnan(value)]
        if part:
            held = sum(known) / len(known) if known else NAN
        means.append(None if math.isnan(held) else held)
        if part and math.isnan(part[-1]):
            held = NAN
        start = end
    return means


def spread(gpus: Sequence[Line]) -> tuple[Line, ...]:
    """Return the highest value, the median and the lowest one of all GPUs as curves."""
    gpus = [line for line in gpus if len(line.xs)]
    if not gpus:
        return ()
    first, last = min(line.xs[0] for line in gpus), max(line.xs[-1] for line in gpus)
    bucket = (last - first) / BUCKETS or 1.0
    values: dict[int, list[float]] = {}
    gaps: set[int] = set()
    for line in gpus:
        for x, value in zip(line.xs, line.levels.values, strict=True):
            place = int((x - first) / bucket)
            if math.isnan(value):
                gaps.add(place)
            else:
                values.setdefault(place, []).append(value)
    xs, made = array("d"), (array("d"), array("d"), array("d"))
    for place in sorted(values):
        found = values[place]
        told = (min(found), statistics.median(found), max(found))
        for _ in range(2 if place in gaps else 1):
            xs.append(first + place * bucket)
            for curve, value in zip(made, told, strict=True):
                curve.append(value)
            told = (NAN, NAN, NAN)
    lowest, median, highest = (Levels(curve) for curve in made)
    return (
        Line("min", xs, lowest, "-", colour=3),
        Line("max", xs, highest, "+", colour=1),
        Line("median", xs, median, "~", colour=0, lit=True),
    )
