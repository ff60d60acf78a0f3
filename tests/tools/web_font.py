"""Write armada/tui/web/symbols.ttf: the characters that Roboto Mono lacks and the dashboard draws with, in cells of its size.

    python -m tests.tools.web_font

A browser would take them from another font, whose dots are of another width: curves would have gaps. The dots of two
cells are as far from each other as those of one.
"""

from __future__ import annotations

import io
import math
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from fontTools.fontBuilder import FontBuilder
from fontTools.pens.ttGlyphPen import TTGlyphPen

FILE = Path(__file__).resolve().parents[2] / "armada/tui/web/symbols.ttf"
EM, WIDTH, TOP, BOTTOM = 2048, 1229, 2146, -555
"""Roboto Mono's: units of an em, a cell's width, its ascent and its descent."""
HEIGHT = TOP - BOTTOM
MIDDLE = (WIDTH / 2, (TOP + BOTTOM) / 2)
DOT = 185.0
"""A dot's radius: 7 of 12 of the way to its neighbour."""
BRAILLE = range(0x2800, 0x2900)
_ROWS = {0: (0, 0), 1: (0, 1), 2: (0, 2), 3: (1, 0), 4: (1, 1), 5: (1, 2), 6: (0, 3), 7: (1, 3)}
"""Column and row of each bit of a braille character."""
_STROKE = 150.0
_ROUND = 540.0

Point = tuple[float, float]
Outline = Sequence[Point]


def circle(centre: Point, radius: float, *, hole: bool = False, corners: int = 24) -> Outline:
    """A circle as a polygon; the other way round as a hole in another one."""
    turns = [2 * math.pi * each / corners * (1 if hole else -1) for each in range(corners)]
    return [(centre[0] + radius * math.cos(turn), centre[1] + radius * math.sin(turn)) for turn in turns]


def line(start: Point, end: Point, width: float = _STROKE) -> Outline:
    """A stroke from one point to another."""
    long = math.hypot(end[0] - start[0], end[1] - start[1])
    x, y = (end[0] - start[0]) / long * width / 2, (end[1] - start[1]) / long * width / 2
    corners = [(start[0] - y, start[1] + x), (end[0] - y, end[1] + x), (end[0] + y, end[1] - x)]
    return [*corners, (start[0] + y, start[1] - x)]


def around(points: Iterable[Point]) -> Outline:
    """The polygon of these points, in units of half a sign's size around the middle of the cell."""
    return [(MIDDLE[0] + _ROUND * x, MIDDLE[1] + _ROUND * y) for x, y in points]


def dot(bit: int) -> Outline:
    """One of the eight dots of braille characters."""
    column, row = _ROWS[bit]
    return circle((WIDTH * (1 + 2 * column) / 4, TOP - HEIGHT * (1 + 2 * row) / 8), DOT, corners=16)


def _arrow(x: float, y: float) -> list[Outline]:
    def at(along: float, beside: float) -> Point:
        return (MIDDLE[0] + _ROUND * (along * x - beside * y), MIDDLE[1] + _ROUND * (along * y + beside * x))

    return [line(at(-1, 0), at(0.9, 0)), [at(1.1, 0), at(0.3, -0.6), at(0.3, 0.6)]]


def _arc(begin: float, end: float, radius: float, width: float) -> Outline:
    turns = [begin + (end - begin) * each / 20 for each in range(21)]
    outer = [
        (MIDDLE[0] + (radius + width / 2) * math.cos(t), MIDDLE[1] + (radius + width / 2) * math.sin(t)) for t in turns
    ]
    inner = [
        (MIDDLE[0] + (radius - width / 2) * math.cos(t), MIDDLE[1] + (radius - width / 2) * math.sin(t)) for t in turns
    ]
    return [*outer, *reversed(inner)]


def _again() -> list[Outline]:
    x, y = MIDDLE[0] + _ROUND * 0.85, MIDDLE[1] + _ROUND * 0.45
    return [
        _arc(math.pi * 0.25, -math.pi * 1.45, _ROUND * 0.85, _STROKE),
        [(x - 260, y - 40), (x + 90, y - 40), (x + 90, y + 330)],
    ]


def _ring(*, dashed: bool = False) -> list[Outline]:
    if not dashed:
        return [circle(MIDDLE, _ROUND), circle(MIDDLE, _ROUND - _STROKE, hole=True)]
    step = math.pi / 4
    return [_arc(each * step + step * 0.72, each * step, _ROUND * 0.9, _STROKE) for each in range(8)]


def _half() -> list[Outline]:
    half = [(math.cos(turn), math.sin(turn)) for turn in (math.pi * (1.5 - each / 16) for each in range(17))]
    return [*_ring(), around((x * 0.8, y * 0.8) for x, y in half)]


def _star() -> list[Outline]:
    turns = [math.pi / 2 - math.pi * each / 5 for each in range(10)]
    radii = [1.25 if each % 2 == 0 else 0.5 for each in range(10)]
    return [around((r * math.cos(t), r * math.sin(t)) for r, t in zip(radii, turns, strict=True))]


def _stroke(*points: Point) -> list[Outline]:
    ends = list(around(points))
    return [line(ends[each], ends[each + 1], 150.0) for each in range(len(ends) - 1)]


SHAPES: dict[str, Callable[[], list[Outline]]] = {
    "←": lambda: _arrow(-1, 0),
    "↑": lambda: _arrow(0, 1),
    "→": lambda: _arrow(1, 0),
    "↓": lambda: _arrow(0, -1),
    "↻": _again,
    "▲": lambda: [around([(0, 1), (1.1, -0.9), (-1.1, -0.9)])],
    "▸": lambda: [around([(-0.6, 0.8), (0.8, 0), (-0.6, -0.8)])],
    "▾": lambda: [around([(-0.8, 0.6), (0.8, 0.6), (0, -0.8)])],
    "◆": lambda: [around([(0, 1.2), (1.1, 0), (0, -1.2), (-1.1, 0)])],
    "◌": lambda: _ring(dashed=True),
    "●": lambda: [circle(MIDDLE, _ROUND)],
    "◐": _half,
    "★": _star,
    "✓": lambda: _stroke((-1, -0.1), (-0.3, -0.9), (1.1, 1.1)),
    "✗": lambda: [*_stroke((-0.9, -1), (0.9, 1)), *_stroke((-0.9, 1), (0.9, -1))],
}


def font() -> bytes:
    """Make the font; the same bytes each time."""
    drawn = {".notdef": _glyph([]), **{_name(code): _braille(code - BRAILLE.start) for code in BRAILLE}}
    drawn |= {_name(ord(sign)): _glyph(draw()) for sign, draw in SHAPES.items()}
    codes = {code: _name(code) for code in (*BRAILLE, *map(ord, SHAPES))}
    builder = FontBuilder(EM, isTTF=True)
    builder.font.recalcTimestamp = False
    builder.setupGlyphOrder(list(drawn))
    builder.setupCharacterMap(codes)
    builder.setupGlyf(drawn)
    table = builder.font["glyf"]
    builder.setupHorizontalMetrics({name: (WIDTH, getattr(table[name], "xMin", 0)) for name in drawn})
    builder.setupHorizontalHeader(ascent=TOP, descent=BOTTOM)
    builder.setupNameTable({"familyName": "armada symbols", "styleName": "Regular"})
    builder.setupOS2(sTypoAscender=TOP, sTypoDescender=BOTTOM, usWinAscent=TOP, usWinDescent=-BOTTOM)
    builder.setupPost(isFixedPitch=1, keepGlyphNames=False)
    builder.updateHead(created=0, modified=0)
    written = io.BytesIO()
    builder.font.save(written)
    return written.getvalue()


def _name(code: int) -> str:
    return f"u{code:04X}"


def _braille(bits: int) -> Any:
    """A glyph of its own for one dot, and for several a reference to each."""
    found = [bit for bit in _ROWS if bits >> bit & 1]
    if len(found) < 2:
        return _glyph([dot(bit) for bit in found])
    pen = TTGlyphPen(dict.fromkeys(_name(BRAILLE.start + (1 << bit)) for bit in found))
    for bit in found:
        pen.addComponent(_name(BRAILLE.start + (1 << bit)), (1, 0, 0, 1, 0, 0))
    return pen.glyph()


def _glyph(outlines: Iterable[Outline]) -> Any:
    pen = TTGlyphPen(None)
    for outline in outlines:
        corners = [(round(x), round(y)) for x, y in outline]
        pen.moveTo(corners[0])
        for corner in corners[1:]:
            pen.lineTo(corner)
        pen.closePath()
    return pen.glyph()


def main() -> int:
    """Write the file."""
    FILE.write_bytes(font())
    sys.stdout.write(f"wrote {FILE.name}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
