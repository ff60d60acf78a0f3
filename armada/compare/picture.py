"""Draw a comparison of runs as a picture: SVG, or PNG where cairosvg is installed."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from armada.compare.marks import ABOVE, WORDS, apart, sign
from armada.compare.new_file import check_new_file, new_file
from armada.errors import UsageError
from armada.foundation.sanitize import sanitize_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from armada.compare.marks import Kind
    from armada.paths import HomePaths

COLOURS = ("#2a5bd0", "#7a3fc0", "#0b7f8a", "#20263c", "#b1267f", "#6d7590")
_DASHES = ("", "6 3", "2 3", "8 3 2 3")
_LEFT, _TOP, _PLOT_WIDTH, _PLOT_HEIGHT, _BOTTOM, _ROW = 90, 70, 760, 380, 60, 20
_WIDTH = 960

Point = tuple[float, float]
"""From 0 to 1 in both directions, from the lower left."""
Ticks = tuple[tuple[float, str], ...]


@dataclass(frozen=True, slots=True)
class Trace:
    """A run: its letter and name, the number of its colour, the pieces of its line, and its dots."""

    sign: str
    name: str
    colour: int
    pieces: tuple[tuple[Point, ...], ...] = ()
    dots: tuple[Point, ...] = ()
    faded: bool = False
    marks: tuple[tuple[float, float, Kind], ...] = ()
    """Where values that are not finite begin, and where the run was resumed."""


@dataclass(frozen=True, slots=True)
class Picture:
    """A plot.

    Attributes:
        x_ticks: Of the horizontal axis; none for parallel coordinates.
        uprights: The vertical axes of parallel coordinates: place, title, ticks.
        front: A line over all others.
    """

    title: str
    x_title: str
    y_title: str
    x_ticks: Ticks
    y_ticks: Ticks
    traces: tuple[Trace, ...]
    uprights: tuple[tuple[float, str, Ticks], ...] = ()
    front: tuple[Point, ...] = ()


def write_picture(picture: Picture, word: str, home: HomePaths) -> Path:
    """Write a picture to a new file and return its path.

    Args:
        picture: The picture.
        word: The name of the file as the user wrote it.
        home: Home's folders, which nothing is written into.

    Raises:
        UsageError: It cannot be the name of a picture, or there is nothing here to draw PNG with.
        Conflict: There is something of that name already.
    """
    if not word.lower().endswith((".svg", ".png")):
        raise UsageError(f"{sanitize_line(word, 300)} must end in .svg or .png", hint=f"{sanitize_line(word, 300)}.svg")
    path = check_new_file(word, "picture", home, force=False)
    drawn = svg(picture).encode()
    image = _png(drawn) if word.lower().endswith(".png") else drawn
    with new_file(path, force=False) as temporary:
        temporary.write_bytes(image)
    return path


def _png(drawn: bytes) -> bytes:
    try:
        convert = importlib.import_module("cairosvg").svg2png
    except (ImportError, OSError):
        raise UsageError("there is no cairosvg here to draw PNG with", hint="a name in .svg needs nothing") from None
    return bytes(convert(bytestring=drawn))


def svg(picture: Picture) -> str:
    """Draw a picture as SVG that needs no other file."""
    height = _TOP + _PLOT_HEIGHT + _BOTTOM + _ROW * len(picture.traces) + 16
    size = f'width="{_WIDTH}" height="{height}" viewBox="0 0 {_WIDTH} {height}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12">',
        f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>',
        f'<text x="16" y="26" font-size="16">{_text(picture.title, 110)}</text>',
        f'<text x="{_LEFT}" y="{_TOP - 14}" fill="#555555">{_text(picture.y_title, 80)}</text>',
        *_axes(picture),
        *_uprights(picture),
        *(part for trace in picture.traces for part in _trace(trace)),
        *_legend(picture),
    ]
    if picture.front:
        parts.append(f'<polyline points="{_points(picture.front)}" fill="none" stroke="#8f5600" stroke-width="1.5"/>')
    for number, trace in enumerate(picture.traces):
        y = _TOP + _PLOT_HEIGHT + _BOTTOM + _ROW * number
        parts.append(f'<line x1="{_LEFT}" x2="{_LEFT + 28}" y1="{y - 4}" y2="{y - 4}" {_look(trace)}/>')
        parts.append(f'<text x="{_LEFT + 36}" y="{y}">{_text(f"{trace.sign}  {trace.name}", 110)}</text>')
    return "\n".join([*parts, "</svg>", ""])


def _axes(picture: Picture) -> Iterator[str]:
    right, bottom = _LEFT + _PLOT_WIDTH, _TOP + _PLOT_HEIGHT
    for share, label in picture.y_ticks:
        y = bottom - share * _PLOT_HEIGHT
        yield f'<line x1="{_LEFT}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}" stroke="#dddddd"/>'
        yield f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end" fill="#555555">{_text(label, 14)}</text>'
    for share, label in picture.x_ticks:
        x = _LEFT + share * _PLOT_WIDTH
        yield f'<text x="{x:.1f}" y="{bottom + 18}" text-anchor="middle" fill="#555555">{_text(label, 20)}</text>'
    yield f'<text x="{right}" y="{bottom + 36}" text-anchor="end" fill="#555555">{_text(picture.x_title, 80)}</text>'


def _uprights(picture: Picture) -> Iterator[str]:
    for share, title, ticks in picture.uprights:
        x = _LEFT + share * _PLOT_WIDTH
        yield f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP}" y2="{_TOP + _PLOT_HEIGHT}" stroke="#999999"/>'
        yield f'<text x="{x:.1f}" y="{_TOP + _PLOT_HEIGHT + 18}" text-anchor="middle">{_text(title, 22)}</text>'
        for place, label in ticks:
            y = _TOP + (1 - place) * _PLOT_HEIGHT + 4
            yield f'<text x="{x + 5:.1f}" y="{y:.1f}" fill="#555555">{_text(label, 16)}</text>'


def _trace(trace: Trace) -> Iterator[str]:
    look = _look(trace)
    for piece in trace.pieces:
        if len(piece) > 1:
            yield f'<polyline points="{_points(piece)}" fill="none" {look}/>'
    for x, y in (*trace.dots, *(piece[0] for piece in trace.pieces if len(piece) == 1)):
        left, top = _place(x, y)
        yield f'<circle cx="{left}" cy="{top}" r="4" fill="{_colour(trace)}"/>'
        if trace.dots:
            yield f'<text x="{float(left) + 7:.1f}" y="{float(top) - 5:.1f}">{_text(trace.sign, 2)}</text>'

    ordered = sorted(trace.marks, key=lambda mark: mark[0])
    for number, x, kind in apart((_LEFT + x * _PLOT_WIDTH, kind) for x, _, kind in ordered):
        y = _TOP + (1 - ordered[number][1]) * _PLOT_HEIGHT - ABOVE
        shape = sign(kind, x, y)
        yield f'<path d="{shape}" fill="none" stroke="#ffffff" stroke-width="6"/>'  # other curves may cross it
        yield f'<path d="{shape}" fill="none" stroke="{_colour(trace)}" stroke-width="2"/>'
        yield f'<text x="{x - 7:.1f}" y="{y + 4:.1f}" text-anchor="end" fill="{_colour(trace)}">{_text(trace.sign, 2)}</text>'


def _legend(picture: Picture) -> Iterator[str]:
    """Say what the signs on the curves mean."""
    kinds = {kind for trace in picture.traces for _, _, kind in trace.marks}
    x, y = _LEFT + _PLOT_WIDTH, _TOP - 18
    for kind in (each for each in reversed(WORDS) if each in kinds):
        yield f'<text x="{x}" y="{y + 4}" text-anchor="end" fill="#555555">{WORDS[kind]}</text>'
        x -= 16 + 7 * len(WORDS[kind])
        yield f'<path d="{sign(kind, x, y)}" fill="none" stroke="#555555" stroke-width="2"/>'
        x -= 20


def _look(trace: Trace) -> str:
    dash = _DASHES[trace.colour // len(COLOURS) % len(_DASHES)]
    return f'stroke="{_colour(trace)}" stroke-width="1.5"' + (f' stroke-dasharray="{dash}"' if dash else "")


def _colour(trace: Trace) -> str:
    return "#b8bcc8" if trace.faded else COLOURS[trace.colour % len(COLOURS)]


def _place(x: float, y: float) -> tuple[str, str]:
    return f"{_LEFT + x * _PLOT_WIDTH:.1f}", f"{_TOP + (1 - y) * _PLOT_HEIGHT:.1f}"


def _points(points: Sequence[Point]) -> str:
    return " ".join(",".join(_place(x, y)) for x, y in points)


def _text(text: str, most: int) -> str:
    return escape(sanitize_line(text, most), quote=True)
