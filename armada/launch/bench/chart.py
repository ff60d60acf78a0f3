"""Draw the results of a bench: bars for a terminal, SVG, CSV."""

from __future__ import annotations

import csv
from html import escape
from typing import IO, TYPE_CHECKING

from armada.foundation.sanitize import sanitize_line
from armada.foundation.spreadsheet import plain_cell
from armada.launch.bench.results import FIGURES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from armada.launch.bench.results import Result

_BAR, _ROW, _LEFT, _RIGHT, _TOP = 420, 24, 300, 200, 56
_COLOURS = {"measured": "#2a78b8", "oom": "#c0392b"}


def bars(results: Sequence[Result], width: int = 40) -> list[str]:
    """Draw tokens a second as bars of a terminal, a line for each cell."""
    most = max((each.speed or 0.0 for each in results), default=0.0)
    room = min(50, max((len(each.label) for each in results), default=0))
    lines = []
    for each in results:
        label = each.label if len(each.label) <= room else f"{each.label[: room - 1]}…"
        if each.speed is None:
            lines.append(f"{label:<{room}}  {each.status}")
        else:
            bar = "█" * max(1, round(width * each.speed / most)) if most > 0 else ""
            lines.append(f"{label:<{room}}  {bar} {each.speed:,.0f}")
    return lines


def svg(results: Sequence[Result], title: str) -> str:
    """Draw tokens a second as SVG, with the spread that is stated as a line over each bar."""
    most = max((each.speed or 0.0 for each in results), default=0.0) or 1.0
    height = _TOP + _ROW * len(results) + 16
    width = _LEFT + _BAR + _RIGHT
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="13">',
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        f'<text x="16" y="24" font-size="16">{_text(title, 90)}</text>',
        '<text x="16" y="44" fill="#555555">tokens a second; the line is the stated spread</text>',
    ]
    for index, each in enumerate(results):
        top = _TOP + _ROW * index
        middle = top + _ROW / 2
        parts.append(f'<text x="{_LEFT - 8}" y="{middle + 4}" text-anchor="end">{_text(each.label, 44)}</text>')
        if each.speed is None:
            colour = _COLOURS.get(each.status, "#777777")
            parts.append(f'<text x="{_LEFT}" y="{middle + 4}" fill="{colour}">{_text(each.status, 20)}</text>')
            continue
        long = _BAR * each.speed / most
        half = min(long, long * max(0.0, each.figure("spread") or 0.0))
        parts.append(
            f'<rect x="{_LEFT}" y="{top + 4}" width="{long:.1f}" height="{_ROW - 8}" fill="{_COLOURS["measured"]}"/>'
        )
        start, end = _LEFT + long - half, min(_LEFT + long + half, width - 8.0)
        parts.append(
            f'<line x1="{start:.1f}" y1="{middle}" x2="{end:.1f}" y2="{middle}" stroke="#222222" stroke-width="2"/>'
        )
        parts.append(f'<text x="{max(end, _LEFT + long) + 8:.1f}" y="{middle + 4}">{each.speed:,.0f}</text>')
    return "\n".join([*parts, "</svg>", ""])


def _text(text: str, most: int) -> str:
    shown = text if len(text) <= most else f"{text[: most - 1]}…"
    return escape("".join(c if c.isprintable() else "�" for c in shown))


def write_csv(results: Sequence[Result], stream: IO[str]) -> None:
    """Write a row for each cell; what is not known is empty."""
    keys = list(dict.fromkeys(key for each in results for key in each.values))
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(
        ["cell", *map(_cell, keys), "status", *FIGURES, "scaling", "cost_per_million_tokens", "currency", "message"]
    )
    for each in results:
        figures = [each.figures.get(name, "") for name in FIGURES]
        derived = ["" if value is None else value for value in (each.scaling, each.cost_per_million_tokens)]
        values = [_cell(str(each.values.get(key, ""))) for key in keys]
        currency = each.currency if each.cost_per_million_tokens is not None else ""
        writer.writerow([each.number, *values, each.status, *figures, *derived, currency, _cell(each.message)])


def _cell(text: str) -> str:
    return plain_cell(sanitize_line(text, 500))
