"""Read the colours in what a job printed. No other control sequence has an effect."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rich.color import Color
from rich.style import Style

from armada.foundation.sanitize import SEQUENCE, sanitize_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

TAB = 8
_PLAIN = Style.null()
_SWITCHES: dict[int, Style] = {
    1: Style(bold=True),
    2: Style(dim=True),
    3: Style(italic=True),
    4: Style(underline=True),
    7: Style(reverse=True),
    9: Style(strike=True),
    21: Style(underline=True),
    22: Style(bold=False, dim=False),
    23: Style(italic=False),
    24: Style(underline=False),
    27: Style(reverse=False),
    29: Style(strike=False),
}
"""Blinking (5, 6) and hidden text (8) are left out."""

_NAMED = (
    "text-muted",
    "text-error",
    "text-success",
    "text-warning",
    "text-accent",
    "text-secondary",
    "curve-3",
    "foreground",
)
"""The theme's colours for black, red, green, yellow, blue, magenta, cyan and white, and for the bright ones."""


class Piece(NamedTuple):
    """A part of a line in one style. The text is sanitized."""

    text: str
    style: Style


def pieces(line: str, limit: int) -> list[Piece]:
    """Split a line where its colours change.

    Args:
        line: The line as it was printed, after its last carriage return.
        limit: The number of characters to keep.
    """
    found: list[Piece] = []
    column = 0
    for text, style in _split(line):
        tabbed = (" " * (column % TAB) + text).expandtabs(TAB)[column % TAB :]
        clean = sanitize_line(tabbed, max(1, limit - column)) if tabbed else ""
        if clean:
            found.append(Piece(clean, style))
        column += len(clean)
        if column >= limit:
            break
    return found


def _split(line: str) -> Iterator[tuple[str, Style]]:
    style, at = _PLAIN, 0
    for sequence in SEQUENCE.finditer(line):
        yield line[at : sequence.start()], style
        at = sequence.end()
        if sequence[2] == "m":
            style = _changed(style, sequence[1])
    yield line[at:], style


def _changed(style: Style, codes: str) -> Style:
    """Return a style after an SGR sequence; codes that are not known change nothing."""
    numbers = [int(code) if code.isdecimal() else 0 if not code else -1 for code in codes.replace(":", ";").split(";")]
    while numbers:
        code = numbers.pop(0)
        if code == 0:
            style = _PLAIN
        elif code in _SWITCHES:
            style += _SWITCHES[code]
        elif code in (38, 48):
            colour = _extended(numbers)
            style += _coloured(colour, behind=code == 48)
        elif 30 <= code <= 37 or 90 <= code <= 97:
            style += _coloured(Color.from_ansi(code - 30 if code < 90 else code - 82), behind=False)
        elif 40 <= code <= 47 or 100 <= code <= 107:
            style += _coloured(Color.from_ansi(code - 40 if code < 100 else code - 92), behind=True)
        elif code in (39, 49):
            style += _coloured(Color.default(), behind=code == 49)
    return style


def _coloured(colour: Color | None, *, behind: bool) -> Style:
    if colour is None:
        return _PLAIN
    return Style(bgcolor=colour) if behind else Style(color=colour)


def _extended(numbers: list[int]) -> Color | None:
    """Take the rest of `38;5;N` or `38;2;R;G;B` from the numbers."""
    kind = numbers.pop(0) if numbers else -1
    size = {5: 1, 2: 3}.get(kind, 0)
    values, numbers[:] = numbers[:size], numbers[size:]
    if not size or len(values) < size or not all(0 <= value < 256 for value in values):
        return None
    return Color.from_ansi(values[0]) if kind == 5 else Color.from_rgb(*values)


def in_theme(style: Style, variables: Mapping[str, str]) -> Style:
    """Return a style whose 16 named colours are those of the theme: a terminal's own may not be readable on its ground.

    Args:
        style: What the job asked for.
        variables: The colours of the theme, by what they mean.
    """
    front, back = _themed(style.color, variables), _themed(style.bgcolor, variables)
    return style if front is None and back is None else style + Style(color=front, bgcolor=back)


def _themed(color: Color | None, variables: Mapping[str, str]) -> str | None:
    if color is None or color.number is None or color.number >= 2 * len(_NAMED):
        return None
    return variables.get(_NAMED[color.number % len(_NAMED)])
