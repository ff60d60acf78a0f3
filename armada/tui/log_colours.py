"""The colours of a line of a log: the job's own if it has some, else by how severe it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from armada.tui.ansi import in_theme, pieces

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.style import Style

    from armada.tui.severity import Severities

NAMES = ("error", "warning", "quiet")
_LOOKS = {
    "dim": "color: $text-muted;",
    "error": "color: $text-error;",
    "warning": "color: $text-warning; text-style: bold;",
    "quiet": "color: $text-muted;",
}


def css_of(widget: str) -> str:
    """Return the rules for the colours of a log in a widget that has the component classes `log--…`."""
    return "\n".join(f"{widget} > .log--{name} {{ {look} }}" for name, look in _LOOKS.items())


class Painted(NamedTuple):
    """A line, sanitized, and its parts from and to a character with their styles; a later part covers an earlier one."""

    text: str
    spans: list[tuple[int, int, Style]]


def paint(
    raw: str, limit: int, severities: Severities, styles: Mapping[str, Style], base: Style, variables: Mapping[str, str]
) -> Painted:
    """Return a line with its colours.

    Args:
        raw: The line as it was printed, after its last carriage return.
        limit: The number of characters to keep.
        severities: Has marked the lines before it.
        styles: The style of each of `NAMES`.
        base: Under the job's own colours.
        variables: The colours of the theme, by what they mean.
    """
    parts = pieces(raw, limit)
    text = "".join(part.text for part in parts)
    mark = severities.mark(text)
    spans: list[tuple[int, int, Style]] = []
    at = 0
    for part in parts:
        spans.append((at, at + len(part.text), base + in_theme(part.style, variables)))
        at += len(part.text)
    if mark is not None and not any(part.style for part in parts):
        spans.append((mark.start, mark.end, styles[mark.severity]))
    return Painted(text, spans)
