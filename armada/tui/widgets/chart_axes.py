"""The axes of a chart as text: which rows and columns have ticks, and how places on the x axis are written."""

from __future__ import annotations

import math
import time
from itertools import pairwise
from typing import TYPE_CHECKING

from armada.costs.price import money
from armada.tui import ticks
from armada.units import exact_span

if TYPE_CHECKING:
    from collections.abc import Iterator

    from armada.tui.widgets.braille import Window

ROWS_PER_TICK = 3
COLUMNS_PER_TICK = 8
"""The least distance of two ticks on the x axis; longer labels need more."""
MOST_TRIED = 12
"""So many ticks of the x axis are tried where no two of fewer fit."""
MORE_DOTS = 10
"""A plot becomes higher by so many rows of dots at most, and by an eighth at most, so that its ticks are even."""


def y_axis(window: Window, rows: int, *, log: bool) -> tuple[Window, dict[int, str]]:
    """Return what is drawn, and the rows of the ticks on the y axis with their labels: the rows between them are equal.

    For that, the window may become a little higher. Where this does not suffice, ticks are left out. Only the ticks of
    a logarithmic axis that are not whole decades are not even. One tick alone is no scale: there are two, or none.

    Args:
        window: The visible part; of a logarithmic axis, exponents.
        rows: The height of the plot in characters.
        log: The y axis is logarithmic.
    """
    if rows < 2:
        return window, {}
    found = _even_axis(window, rows, log=log)
    return found if len(found[1]) > 1 else _from_end_to_end(window, rows, log=log)


def _even_axis(window: Window, rows: int, *, log: bool) -> tuple[Window, dict[int, str]]:
    """Return what is drawn, and its ticks; one or none if no two of those that fit are in different rows."""
    most = max(1, rows // ROWS_PER_TICK)
    found = _ticks_of(window, rows, most, log=log)
    values, places = list(found), list(found.values())
    if log and any(value != round(value) for value in values):
        return window, _apart(found)
    stay = ticks.evenly(places, () if log else values)
    kept = {values[place]: places[place] for place in stay}
    is_whole = stay.stop == len(places)  # else two ticks beside each other, and others above or below
    enough = len(kept) if log or (is_whole and ticks.is_round(list(kept))) else 1
    for fits in range(most, 1, -1):
        fewer = _ticks_of(window, rows, fits, log=log)
        if len(fewer) <= enough:
            break
        for other in _higher(window, rows * 4 - 1):
            more = _ticks_of(other, rows, fits, log=log)
            if len(more) >= len(fewer) and ticks.is_even(list(more.values())):
                return other, _labelled(other, more, log=log)
    return window, _labelled(window, kept, log=log, step=ticks.distance(values))


def _from_end_to_end(window: Window, rows: int, *, log: bool) -> tuple[Window, dict[int, str]]:
    """Return a higher window that ends at ticks, and these; no ticks if there are no such numbers."""
    low, high = _decades_around(window) if log else _steps_around(window)
    if not (math.isfinite(high - low) and high > low):
        return window, {}
    middle = [0.0] if not log and low < 0 < high else []
    other = window._replace(y0=low, y1=high)
    found = {each: ticks.row_of((high - each) / (high - low), rows) for each in (low, *middle, high)}
    if middle and not ticks.is_even(list(found.values())):
        del found[low]
    return other, _labelled(other, found, log=log)


def _steps_around(window: Window) -> tuple[float, float]:
    """Return two neighbouring multiples of 1, 2 or 5 times a power of ten around a window, or such a number and its negative."""
    step = ticks.step_of(window.y1 - window.y0, 1)
    while math.isfinite(step) and step > 0:
        low = math.floor(window.y0 / step + 1e-9) * step
        if low + step >= window.y1:
            return low, low + step
        if max(-window.y0, window.y1) <= step:
            return -step, step
        step = ticks.step_of(step * 1.5, 1)
    return 0.0, 0.0


def _decades_around(window: Window) -> tuple[float, float]:
    """Return exponents around a window: of whole decades, or within one, of 1, 2 and 5 times a power of ten."""
    low, high = math.floor(window.y0), math.ceil(window.y1)
    if window.y1 - window.y0 >= 1:
        return low, high
    found = [power + math.log10(factor) for power in range(low, high + 1) for factor in (1, 2, 5)]
    below = [each for each in found if each <= window.y0]
    return max(below, default=low), min((each for each in found if each >= window.y1), default=high)


def _ticks_of(window: Window, rows: int, most: int, *, log: bool) -> dict[float, int]:
    """Return about `most` ticks, and their rows."""
    high = window.y1 - window.y0
    found = (ticks.log_ticks if log else ticks.ticks)(window.y0, window.y1, most)
    return {value: min(rows - 1, max(0, ticks.row_of((window.y1 - value) / high, rows))) for value in found}


def _higher(window: Window, dots: int) -> Iterator[Window]:
    """Yield the window, and then windows with a few more rows of dots above and below."""
    for more in range(min(MORE_DOTS, dots // 8) + 1):
        dot = (window.y1 - window.y0) / (dots - more)
        for above in sorted(range(more + 1), key=lambda each: abs(2 * each - more)):
            other = window._replace(y0=window.y0 - (more - above) * dot, y1=window.y1 + above * dot)
            if math.isfinite(other.y1 - other.y0):
                yield other


def _labelled(window: Window, found: dict[float, int], *, log: bool, step: float = 0.0) -> dict[int, str]:
    if log:
        return dict(zip(found.values(), ticks.log_figures([*found]), strict=True))
    step, largest = step or ticks.distance(list(found)), max(abs(window.y0), abs(window.y1))
    return {row: ticks.figure(value, step, largest) for value, row in found.items()}


def _apart(found: dict[float, int]) -> dict[int, str]:
    """Return the labels of a logarithmic axis that are not in the same row or in neighbouring ones, unless only one is left."""
    kept: dict[int, float] = {}
    for value, row in found.items():
        if not any(near in kept for near in (row - 1, row, row + 1)):
            kept[row] = value
    if len(kept) == 1:
        kept |= {row: value for value, row in list(found.items())[-1:] if row not in kept}
    return dict(zip(kept, ticks.log_figures([*kept.values()]), strict=True))


def foot(view: tuple[float, float], unit: str, room: int) -> str:
    """Return the labels of the x axis, each below its place, as many as fit beside each other; no one alone.

    Args:
        view: The visible part of the x axis.
        unit: `step`, `time` (seconds), `clock` (unix time), a currency, or a word that follows each number.
        room: The width of the plot.
    """
    x0, x1 = view
    if x1 <= x0:
        return f"{x_text(x0, 0.0, unit, view):^{room}}"
    for most in range(max(2, room // COLUMNS_PER_TICK), 0, -1):
        if len(found := _placed(_x_ticks(view, unit, most), view, room)) > 1:
            break
    else:  # labels are long where few fit: a pair of those that are nearer
        closer = (_x_ticks(view, unit, most)[::stride] for most in range(2, MOST_TRIED) for stride in (1, 2, 5))
        found = next((placed for each in closer if len(placed := _placed(each, view, room)) > 1), {})
    cells = " " * room
    for start, label in found.items():
        cells = cells[:start] + label + cells[start + len(label) :]
    return cells


def _placed(found: list[tuple[float, str]], view: tuple[float, float], room: int) -> dict[int, str]:
    """Return the labels of the x axis by where they begin; none if there is no room for all but one at an end."""
    (x0, x1), ends, placed = view, 0, {}
    widest = max((len(label) for _, label in found), default=0)
    if any((after - before) / (x1 - x0) * (room - 1) < widest + 2 for (before, _), (after, _) in pairwise(found)):
        return {}
    for place, label in found:
        column = round((place - x0) / (x1 - x0) * (room - 1))
        start = min(room - len(label), max(0, column - len(label) // 2))
        if start >= ends and start + len(label) <= room:
            placed[start] = label
            ends = start + len(label) + 2
    return placed


def _x_ticks(view: tuple[float, float], unit: str, most: int) -> list[tuple[float, str]]:
    """Return about so many ticks of the x axis with their labels; `unit` as of `foot`."""
    x0, x1 = view
    of_time = unit in ("clock", "time")
    found = ticks.time_ticks(x0, x1, most, local=unit == "clock") if of_time else ticks.ticks(x0, x1, most)
    if unit == "step":
        found = [place for place in found if place == round(place)]
    step = ticks.distance(found)
    return [(place, x_text(place, step, unit, view)) for place in found]


def place_text(value: float, unit: str, view: tuple[float, float]) -> str:
    """Write a place on the x axis exactly, as the crosshair says it."""
    if unit == "clock":
        return time.strftime("%a %H:%M:%S", time.localtime(value))
    return f"step {value:,.0f}" if unit == "step" else x_text(value, 0.0, unit, view)


def x_text(value: float, step: float, unit: str, view: tuple[float, float]) -> str:
    """Write a place on the x axis as its tick says it."""
    if unit == "clock":
        wide = view[1] - view[0]
        shown = "%a %H:%M" if wide > 80_000 else "%H:%M" if wide > 300 else "%H:%M:%S"
        return time.strftime(shown, time.localtime(value))
    if unit == "time":
        return exact_span(value)
    if unit.isupper():
        return money(value, unit)
    return ticks.figure(value, step, max(map(abs, view))) + ("" if unit == "step" else f" {unit}")
