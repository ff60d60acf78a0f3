"""The axes of a chart as text: which rows and columns have ticks, and how places on the x axis are written."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from armada.costs.price import money
from armada.tui import ticks

if TYPE_CHECKING:
    from armada.tui.widgets.braille import Window

ROWS_PER_TICK = 3
COLUMNS_PER_TICK = 14


def row_marks(window: Window, rows: int, *, log: bool) -> dict[int, str]:
    """Return the rows of the ticks on the y axis, and their labels.

    Args:
        window: The visible part; of a logarithmic axis, exponents.
        rows: The height of the plot in characters.
        log: The y axis is logarithmic.
    """
    most = max(1, rows // ROWS_PER_TICK)
    found = (ticks.log_ticks if log else ticks.ticks)(window.y0, window.y1, most)
    step, largest = ticks.distance(found), max(abs(window.y0), abs(window.y1))
    marks: dict[int, str] = {}
    for value in found:
        row = round((window.y1 - value) / (window.y1 - window.y0) * (rows * 4 - 1)) // 4
        near = row in marks or (log and (row - 1 in marks or row + 1 in marks))
        if 0 <= row < rows and not near:
            marks[row] = ticks.figure(10**value) if log else ticks.figure(value, step, largest)
    return marks


def foot(view: tuple[float, float], unit: str, room: int) -> str:
    """Return the labels of the x axis, each below its place, as many as fit beside each other.

    Args:
        view: The visible part of the x axis.
        unit: `step`, `time` (seconds), `clock` (unix time), a currency, or a word that follows each number.
        room: The width of the plot.
    """
    x0, x1 = view
    if x1 <= x0:
        return f"{x_text(x0, 0.0, unit, view):^{room}}"
    cells = [" "] * room
    most = max(1, room // COLUMNS_PER_TICK)
    of_time = unit in ("clock", "time")
    found = ticks.time_ticks(x0, x1, most, local=unit == "clock") if of_time else ticks.ticks(x0, x1, most)
    if unit == "step":
        found = [place for place in found if place == round(place)]
    step = ticks.distance(found)
    ends = 0
    for place in found:
        label = x_text(place, step, unit, view)
        column = round((place - x0) / (x1 - x0) * (room - 1))
        start = min(room - len(label), max(0, column - len(label) // 2))
        if start >= ends and start + len(label) <= room:
            cells[start : start + len(label)] = label
            ends = start + len(label) + 2
    return "".join(cells)


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
        return ticks.lasted(value)
    if unit.isupper():
        return money(value, unit)
    return ticks.figure(value, step, max(map(abs, view))) + ("" if unit == "step" else f" {unit}")
