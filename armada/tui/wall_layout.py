"""How charts share a wall: how many fit, and in which columns and rows."""

from __future__ import annotations

import math
from typing import NamedTuple

SMALLEST = (36, 8)
"""The columns and lines of the smallest chart of a wall, with its frame."""
MOST = 36
"""Charts of a wall; each is read, kept and drawn."""
ASPECT = 4.0
"""Columns to lines of a chart that is easy to read."""


class Layout(NamedTuple):
    """The columns and rows of a wall."""

    columns: int
    rows: int


def fitting(width: int, height: int) -> int:
    """Return how many charts fit into so many columns and lines, at least 1."""
    return min(MOST, max(1, width // SMALLEST[0]) * max(1, height // SMALLEST[1]))


def arrange(count: int, width: int, height: int) -> Layout:
    """Return the layout in which so many charts come closest to a readable shape, with few places left empty.

    Args:
        count: The charts, at least 1, at most as many as fit.
        width: The columns of the wall.
        height: Its lines.
    """
    most = max(1, width // SMALLEST[0])

    def badness(layout: Layout) -> float:
        shape = (max(1, width) / layout.columns) / (max(1, height) / layout.rows)
        return abs(math.log(shape / ASPECT)) + (layout.columns * layout.rows - count) / count

    layouts = [Layout(math.ceil(count / rows), rows) for rows in range(1, count + 1)]
    fits = [each for each in layouts if each.columns <= most and each.rows <= max(1, height // SMALLEST[1])]
    return min(fits, key=badness)
