"""Draw curves as SVG."""

from __future__ import annotations

import html
import json
import math
from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING

from armada.compare.marks import ABOVE, WORDS, apart, sign
from armada.foundation.sanitize import sanitize_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from armada.compare.marks import Kind

WIDTH, HEIGHT = 640, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 12, 10, 30
_LARGEST = 1e300
"""Larger values are gaps: differences of two of them overflow."""

COLOURS = 10
_DASHES = ("", "6 3", "2 3", "8 3 2 3")


@dataclass(frozen=True, slots=True)
class Line:
    """A curve: its name, and its points with rising steps. A value that is None or not finite is a gap."""

    name: str
    points: Sequence[tuple[float, float | None]]
    marks: Sequence[tuple[float, Kind]] = ()
    """Steps at which values that are not finite begin, and at which the run was resumed."""

    @property
    def drawn(self) -> list[tuple[float, float | None]]:
        """The points, with None for each gap."""
        return [(step, value if _is_drawn(value) else None) for step, value in self.points]


def _is_drawn(value: float | None) -> bool:
    return value is not None and math.isfinite(value) and abs(value) <= _LARGEST


def draw_chart(title: str, lines: Sequence[Line | None]) -> str:
    """Return a figure with the curves of one metric, each in the colour of its place.

    Args:
        title: The name of the metric.
        lines: One for each run; None if it has no points.
    """
    drawn = {place: line.drawn for place, line in enumerate(lines) if line is not None}
    steps = [step for points in drawn.values() for step, value in points if value is not None]
    values = [value for points in drawn.values() for _, value in points if value is not None]
    kinds = {kind for line in lines if line is not None for _, kind in line.marks}
    legend = "".join(f" · {_sign_swatch(kind)} {word}" for kind, word in WORDS.items() if kind in kinds)
    caption = f"<figcaption>{text(title, 100)} <small>by step{legend}</small></figcaption>"
    if not values:
        return f'<figure class="chart">{caption}<p class="none">no value that can be drawn</p></figure>'
    xs, ys = _range(min(steps), max(steps)), _range(min(values), max(values))
    body = [*_axis_lines(xs, ys)]
    for place, points in drawn.items():
        body.extend(_curve(place, points, xs, ys))
    for place, line in enumerate(lines):
        if line is not None:
            body.extend(_marks(place, line.marks, drawn[place], xs, ys))
    named = {place: line.name for place, line in enumerate(lines) if line is not None}
    told = [
        {
            "n": sanitize_line(named[place], 100),
            "c": place % COLOURS,
            "p": [(step, None if value is None else float(f"{value:.6g}")) for step, value in points],
        }
        for place, points in drawn.items()
    ]
    data = html.escape(json.dumps({"x": xs, "y": ys, "lines": told}, separators=(",", ":")))
    box = f"{_LEFT} {_TOP} {WIDTH - _LEFT - _RIGHT} {HEIGHT - _TOP - _BOTTOM}"
    svg = (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{text(title, 100)}" data-box="{box}" '
        f'data-curves="{data}">{"".join(body)}<line class="cursor" y1="{_TOP}" y2="{HEIGHT - _BOTTOM}"/></svg>'
    )
    return f'<figure class="chart">{caption}{svg}<div class="values"></div></figure>'


def swatch(place: int) -> str:
    """Return a short line in the colour and dashes of a run."""
    line = f'<line x1="1" x2="27" y1="5" y2="5" class="curve c{place % COLOURS}"{_dash(place)}/>'
    return f'<svg class="swatch" viewBox="0 0 28 10" aria-hidden="true">{line}</svg>'


def _sign_swatch(kind: Kind) -> str:
    shape = f'<path class="mark" d="{sign(kind, 7, 7)}"/>'
    return f'<svg class="sign" viewBox="0 0 14 14" aria-hidden="true">{shape}</svg>'


def text(value: object, limit: int = 500) -> str:
    """Return text for HTML: sanitized, on one line, and escaped for elements and attributes."""
    return html.escape(sanitize_line(value, limit), quote=True)


def _dash(place: int) -> str:
    dash = _DASHES[place // COLOURS % len(_DASHES)]
    return f' stroke-dasharray="{dash}"' if dash else ""


def _range(low: float, high: float) -> tuple[float, float]:
    """Return a range that is not empty."""
    if high > low:
        return low, high
    room = abs(low) * 0.1 or 0.5
    return low - room, high + room


def _x(step: float, xs: tuple[float, float]) -> float:
    return _LEFT + (step - xs[0]) / (xs[1] - xs[0]) * (WIDTH - _LEFT - _RIGHT)


def _y(value: float, ys: tuple[float, float]) -> float:
    return HEIGHT - _BOTTOM - (value - ys[0]) / (ys[1] - ys[0]) * (HEIGHT - _TOP - _BOTTOM)


def ticks(low: float, high: float, most: int) -> list[float]:
    """Return round numbers between two values, at most so many."""
    size = (high - low) / most
    if size <= 0 or not math.isfinite(size):
        return [low]
    power = 10.0 ** math.floor(math.log10(size))
    if power == 0:  # smaller than any float can be divided
        return [low]
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= size * (1 - 1e-9))
    first = math.ceil(low / step)
    found = [(first + place) * step for place in range(most + 1)]
    return [value for value in found if low <= value <= high * (1 + 1e-12) + 1e-300]


def figure(value: float) -> str:
    """Format a number of an axis: `0.25`, `1,500`, `2e-05`."""
    if value == 0:
        return "0"
    if 1000 <= abs(value) < 1e7 and value == int(value):
        return f"{value:,.0f}"
    return f"{value:.4g}"


def _axis_lines(xs: tuple[float, float], ys: tuple[float, float]) -> Iterator[str]:
    for value in ticks(*ys, 6):
        y = _y(value, ys)
        yield f'<line class="grid" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        yield f'<text class="tick" x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{figure(value)}</text>'
    for value in ticks(*xs, 7):
        x = _x(value, xs)
        yield f'<text class="tick" x="{x:.1f}" y="{HEIGHT - _BOTTOM + 18}" text-anchor="middle">{figure(value)}</text>'


def _curve(
    place: int, points: Sequence[tuple[float, float | None]], xs: tuple[float, float], ys: tuple[float, float]
) -> Iterator[str]:
    """Yield the pieces of a curve between its gaps; a single point becomes a dot."""
    look = f'class="curve c{place % COLOURS}"{_dash(place)}'
    piece: list[str] = []
    for step, value in [*points, (0.0, None)]:
        if value is not None:
            piece.append(f"{_x(step, xs):.1f},{_y(value, ys):.1f}")
            continue
        if len(piece) > 1:
            yield f'<polyline {look} points="{" ".join(piece)}"/>'
        elif piece:
            x, _, y = piece[0].partition(",")
            yield f'<circle class="dot c{place % COLOURS}" cx="{x}" cy="{y}" r="2.5"/>'
        piece = []


def _marks(
    place: int,
    marks: Sequence[tuple[float, Kind]],
    points: Sequence[tuple[float, float | None]],
    xs: tuple[float, float],
    ys: tuple[float, float],
) -> Iterator[str]:
    """Yield the signs of a curve's marks, at the height of the curve beside them."""
    steps = [step for step, _ in points]
    ordered = sorted((min(xs[1], max(xs[0], step)), kind, step) for step, kind in marks)
    for number, x, kind in apart((_x(step, xs), kind) for step, kind, _ in ordered):
        step = ordered[number][2]
        at = bisect_left(steps, step)
        near = (value for _, value in (*reversed(points[:at]), *points[at:]) if value is not None)
        y = max(_TOP, _y(next(near, ys[0]), ys) - ABOVE)
        shape = sign(kind, x, y)
        yield f'<path class="halo" d="{shape}"/>'
        told = f"<title>{WORDS[kind]}: step {step:,.0f}</title>"
        yield f'<path class="mark c{place % COLOURS}" d="{shape}">{told}</path>'
