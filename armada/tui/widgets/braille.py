"""Draw curves as braille dots: two columns and four rows of dots in each character."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from armada.tui.curves import Levels

_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
SPARSE = 2
"""Up to so many points per column of dots are joined by lines; more are drawn as their extremes."""

FAR = 1e6
"""Dots further outside the window than this are drawn here: the distance of the largest floats is infinite."""
EMPTY = 255
"""The owner of a cell without a dot."""
DASHES = ((True,), (*(True,) * 6, False), (True, True, False), (*(True,) * 6, False, True, False))
"""Which columns of characters a line takes, again and again: solid, long and short dashes, and dashes and dots.

The gaps are one column: wider ones look as if data were missing. The periods are odd: what stands along a curve at every
16th column is not always in a gap.
"""


class Window(NamedTuple):
    """The part of the plane that is drawn."""

    x0: float
    x1: float
    y0: float
    y1: float


class Canvas:
    """Dots, and the curve that last set a dot in each character."""

    def __init__(self, width: int, height: int) -> None:
        self.width = width
        self.height = height
        self._cells = [bytearray(width) for _ in range(height)]
        self._owners = [bytearray(width) for _ in range(height)]
        self._letters: dict[tuple[int, int], tuple[str, int]] = {}
        self._dashes: dict[int, tuple[bool, ...]] = {}

    def dash(self, owner: int, kind: int) -> None:
        """Draw a curve with gaps from now on; `kind` is a place in `DASHES`."""
        self._dashes[owner] = DASHES[kind % len(DASHES)]

    def span(self, x: int, top: int, bottom: int, owner: int) -> None:
        """Set the dots of a column from `top` to `bottom`, inclusive."""
        column, side = divmod(x, 2)
        dashes = self._dashes.get(owner)
        if not 0 <= column < self.width or (dashes is not None and not dashes[column % len(dashes)]):
            return
        for y in range(max(0, top), min(self.height * 4 - 1, bottom) + 1):
            row, dot = divmod(y, 4)
            self._cells[row][column] |= _DOTS[dot][side]
            self._owners[row][column] = owner

    def letter(self, x: int, y: int, letter: str, owner: int) -> None:
        """Put a curve's letter at its dot (x, y), or in the nearest free row above or below."""
        column = min(self.width - 1, max(0, x // 2))
        for row in sorted(range(self.height), key=lambda each: abs(each - y // 4)):
            if (row, column) not in self._letters:
                self._letters[row, column] = (letter, owner)
                return

    def word(self, x: int, y: int, word: str, owner: int) -> None:
        """Put a word whose last character is at a dot (x, y), or in the nearest row in which all of its cells are free."""
        first = min(self.width - len(word), max(0, x // 2 - len(word) + 1))
        for row in sorted(range(self.height), key=lambda each: abs(each - y // 4)):
            cells = [(row, first + place) for place in range(len(word))]
            if first >= 0 and not any(cell in self._letters for cell in cells):
                self._letters |= {cell: (character, owner) for cell, character in zip(cells, word, strict=True)}
                return

    def is_dashed(self, owner: int) -> bool:
        """Whether a curve is drawn with gaps."""
        return len(self._dashes.get(owner, ())) > 1

    def name_along(self, letter: str, owner: int, first: int, every: int) -> None:
        """Put a curve's letter on it at every so many columns from the first one, where no other curve covers it."""
        for column in range(first, self.width, every):
            rows = (
                row for row in range(self.height) if self._cells[row][column] and self._owners[row][column] == owner
            )
            if (row := next(rows, None)) is not None:
                self._letters.setdefault((row, column), (letter, owner))

    def row(self, y: int, *, utf8: bool) -> list[tuple[str, int]]:
        """Return a line of characters as runs of (text, curve); curve `EMPTY` for empty ones."""
        runs: list[tuple[str, int]] = []
        for column, (cell, owner) in enumerate(zip(self._cells[y], self._owners[y], strict=True)):
            character = (chr(0x2800 + cell) if utf8 else _ascii(cell)) if cell else " "
            who = owner if cell else EMPTY
            character, who = self._letters.get((y, column), (character, who))
            if runs and runs[-1][1] == who:
                runs[-1] = (runs[-1][0] + character, who)
            else:
                runs.append((character, who))
        return runs


def _ascii(cell: int) -> str:
    upper, lower = cell & 0x1B, cell & 0xE4
    return ":" if upper and lower else "'" if upper else "."


def extent(levels: Levels, xs: Sequence[float], x0: float, x1: float) -> tuple[float, float] | None:
    """Return the lowest and highest value between two places on the x axis."""
    return levels.extremes(*places(levels, xs, x0, x1))


def places(levels: Levels, xs: Sequence[float], x0: float, x1: float) -> tuple[int, int]:
    """Return the first point between two places on the x axis, and the one after the last."""
    return bisect_left(xs, x0), min(len(levels), bisect_right(xs, x1))


def dot(share: float, dots: int) -> int:
    """Return the dot at a share of the way from the first to the last of `dots`; far outside of it, one that is `FAR` away."""
    return round(min(FAR, max(-FAR, share * (dots - 1))))


def draw(canvas: Canvas, xs: Sequence[float], levels: Levels, window: Window, owner: int) -> None:
    """Draw one curve; its gaps stay empty."""
    columns, rows = canvas.width * 2, canvas.height * 4
    if window.x1 <= window.x0 or not len(levels):
        return
    per_x = (columns - 1) / (window.x1 - window.x0)
    per_y = (rows - 1) / (window.y1 - window.y0) if window.y1 > window.y0 else 0.0

    def y_of(value: float) -> int:
        return round(min(FAR, max(-FAR, (window.y1 - value) * per_y))) if per_y else rows // 2

    count = min(len(levels), len(xs))
    first, last = bisect_left(xs, window.x0, 0, count), bisect_right(xs, window.x1, 0, count)
    if last - first <= SPARSE * columns:
        _lines(canvas, xs, levels, (max(0, first - 1), min(count, last + 1)), window.x0, per_x, y_of, owner)
        return
    before: tuple[int, int] | None = None
    start = first
    for x in range(columns):
        end = last if x == columns - 1 else bisect_left(xs, window.x0 + (x + 0.5) / per_x, start, last)
        found = levels.extremes(start, end)
        if found is None:
            before = before if end == start else None
            continue
        top, bottom = y_of(found[1]), y_of(found[0])
        if before is not None:  # connect it with the previous column
            canvas.span(x, min(top, before[1] + 1), max(bottom, before[0] - 1), owner)
        else:
            canvas.span(x, top, bottom, owner)
        before, start = (top, bottom), end


def _lines(
    canvas: Canvas,
    xs: Sequence[float],
    levels: Levels,
    within: tuple[int, int],
    x0: float,
    per_x: float,
    y_of: Callable[[float], int],
    owner: int,
) -> None:
    before: tuple[int, int] | None = None
    for index in range(*within):
        value = levels.values[index]
        if math.isnan(value):
            before = None
            continue
        x, y = round((xs[index] - x0) * per_x), y_of(value)
        if before is None or before[0] == x:
            low = y if before is None else min(y, before[1])
            canvas.span(x, low, y if before is None else max(y, before[1]), owner)
        else:
            _line(canvas, before, (x, y), owner)
        before = (x, y)


def _line(canvas: Canvas, start: tuple[int, int], end: tuple[int, int], owner: int) -> None:
    (x0, y0), (x1, y1) = start, end
    slope = (y1 - y0) / (x1 - x0)
    previous = y0
    for x in range(max(x0, 0), min(x1, canvas.width * 2 - 1) + 1):
        y = round(y0 + slope * (x - x0))
        if x == max(x0, 0):
            previous = y
        # Start beside the previous dot, so that steep lines have no gaps and flat ones no steps of two.
        top, bottom = (min(previous + 1, y), y) if y > previous else (y, max(previous - 1, y))
        canvas.span(x, top, bottom, owner)
        previous = y
