"""Make a picture for a file from what a page of the comparison shows."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING

from armada.compare.picture import Picture, Trace
from armada.foundation.sanitize import sanitize_line
from armada.tui import ticks
from armada.tui.curves import is_constant
from armada.tui.widgets import chart_axes
from armada.tui.widgets.braille import extent
from armada.tui.widgets.chart import NAMES, value_beside

if TYPE_CHECKING:
    from collections.abc import Iterator

    from armada.compare.marks import Kind
    from armada.compare.picture import Point
    from armada.tui.scales import Scale
    from armada.tui.screens.compare import CompareScreen
    from armada.tui.screens.compare_text import Compared
    from armada.tui.widgets.chart_plane import Line

COLUMNS = 760
"""Of a curve, the lowest and the highest point of so many columns are drawn."""


def picture_of(screen: CompareScreen) -> Picture:
    """Return the picture of the visible page."""
    if screen.shown == "curves":
        return _curves(screen)
    if screen.shown == "parallel":
        return _parallel(screen)
    return _scatter(screen)


def _named(run: Compared) -> tuple[str, str, int]:
    return NAMES[run.place], f"{run.row.name} {run.row.id}", run.place


def _curves(screen: CompareScreen) -> Picture:
    lines, unit, notes = screen.lines()
    choices, chart = screen.choices, screen.chart
    x0, x1 = chart.view
    found = [each for line in lines if (each := extent(line.levels, line.xs, x0, x1)) is not None]
    y0, y1 = (min(low for low, _ in found), max(high for _, high in found)) if found else (0.0, 1.0)
    y1 = y0 if is_constant(y0, y1, log=choices.logarithmic) else y1
    marks = (ticks.log_ticks if choices.logarithmic else ticks.ticks)(y0, y1, 8)
    step, largest = ticks.distance(marks), max(abs(y0), abs(y1))
    said = ticks.log_figures(marks) if choices.logarithmic else [ticks.figure(each, step, largest) for each in marks]
    y_ticks = tuple(zip((_share(each, y0, y1) for each in marks), said, strict=True))
    of_time = unit == "time"
    places = ticks.time_ticks(x0, x1, 8, local=False) if of_time else ticks.ticks(x0, x1, 8)
    apart = ticks.distance(places)
    x_ticks = tuple((_share(each, x0, x1), chart_axes.x_text(each, apart, unit, (x0, x1))) for each in places)
    runs = {run.place: run for run in screen.runs}
    traces = tuple(
        Trace(
            *_named(runs[line.colour]),
            pieces=tuple(_pieces(line, (x0, x1), (y0, y1))),
            marks=tuple(_marks(line, (x0, x1), (y0, y1))),
        )
        for line in sorted(lines, key=lambda each: each.colour or 0)
        if line.colour in runs
    )
    metric = sanitize_line(choices.metric, 60)
    smooth = f" · smoothed {choices.smoothing}" if choices.smoothing else ""
    title = f"{metric} against {choices.against}{smooth}{notes if lines else ''}"
    return Picture(title, choices.against, metric, x_ticks, y_ticks, traces)


def _share(value: float, low: float, high: float) -> float:
    share = (value - low) / (high - low) if high > low else 0.5
    return share if 0 <= share <= 1 else 0.5  # the distance of the largest floats is infinite


def _pieces(line: Line, xs: tuple[float, float], ys: tuple[float, float]) -> Iterator[tuple[Point, ...]]:
    """Yield a curve between its gaps; of many points, the extremes of each column."""
    first, last = bisect_left(line.xs, xs[0]), min(len(line.levels), bisect_right(line.xs, xs[1]))
    piece: list[Point] = []
    wide = max(1, -(-(last - first) // COLUMNS))
    for start in range(first, last, wide):
        end = min(last, start + wide)
        found = line.levels.extremes(start, end)
        if found is None:
            if piece:
                yield tuple(piece)
            piece = []
            continue
        x = _share(line.xs[start], *xs)
        piece += [(x, _share(each, *ys)) for each in dict.fromkeys(found)]
    if piece:
        yield tuple(piece)


def _marks(line: Line, xs: tuple[float, float], ys: tuple[float, float]) -> Iterator[tuple[float, float, Kind]]:
    """Yield the marks that are in sight, at the height of the curve beside them."""
    for mark in line.marks:
        if xs[0] <= mark.x <= xs[1]:
            value = value_beside(line, mark.point)
            height = _share(min(ys[1], max(ys[0], value)), *ys) if value is not None else 0.0
            yield _share(mark.x, *xs), height, mark.kind


def _parallel(screen: CompareScreen) -> Picture:
    axes, runs = screen.axes(), screen.runs
    places = [number / max(1, len(axes) - 1) for number in range(len(axes))]
    traces = []
    for number, run in enumerate(runs):
        pieces: list[tuple[Point, ...]] = []
        piece: list[Point] = []
        for x, axis in zip(places, axes, strict=True):
            share = axis.shares[number]
            if share is None:
                pieces, piece = [*pieces, tuple(piece)], []
            else:
                piece.append((x, share))
        kept = tuple(each for each in (*pieces, tuple(piece)) if each)
        traces.append(Trace(*_named(run), pieces=kept))
    uprights = tuple((x, axis.title, axis.marks) for x, axis in zip(places, axes, strict=True))
    return Picture(f"settings and {axes[-1].title}", "", "", (), (), tuple(traces), uprights)


def _scatter(screen: CompareScreen) -> Picture:
    x, y, front, notes = screen.scatter_axes()
    title = f"{y.title} against {x.title if x is not None else ''}{' · ' if notes else ''}{notes}"
    traces, on = [], []
    for number, run in enumerate(screen.runs):
        share = x.shares[number] if x is not None else None
        height = y.shares[number]
        if share is None or height is None:
            continue
        faded = front is not None and number not in front
        on += [(share, height)] if front is not None and not faded else []
        traces.append(Trace(*_named(run), dots=((share, height),), faded=faded))
    return Picture(
        title, _titled(x), _titled(y), x.marks if x is not None else (), y.marks, tuple(traces), (), tuple(sorted(on))
    )


def _titled(axis: Scale | None) -> str:
    return "" if axis is None else axis.title + (" (log)" if axis.kind == "log" else "")
