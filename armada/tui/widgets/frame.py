"""Frames: a rounded border with a title in its upper edge, and facts or keys in its lower one. The focused one is lit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.content import Content

if TYPE_CHECKING:
    from textual.widget import Widget

FRAME = "frame"
"""The class of a widget that is a frame."""
CSS = """
.frame {
    border: round $frame;
    border-title-color: $foreground; border-title-style: bold;
    border-subtitle-color: $text-muted; border-subtitle-align: right;
}
.frame:focus, .frame:focus-within { border: round $accent; border-title-color: $text-accent; }
.-tiny .frame, .-slim .frame, .-tiny .frame:focus, .-slim .frame:focus { border: none; }
"""
"""Textual draws the border and keeps its lines: a changed row of a table repaints only itself. A small terminal has none."""


def title(widget: Widget, words: str | Content) -> None:
    """Write a frame's title; the words come sanitized, and are no markup."""
    _write(widget, "border_title", words)


def facts(widget: Widget, words: str | Content) -> None:
    """Write facts or keys into the lower edge of a frame; the words come sanitized, and are no markup."""
    _write(widget, "border_subtitle", words)


def _write(widget: Widget, edge: str, words: str | Content) -> None:
    """Write into an edge of a frame if its text changed: a new title repaints the whole frame."""
    known = f"_armada_{edge}"
    if getattr(widget, known, None) == words:
        return
    setattr(widget, known, words)
    made = words if isinstance(words, Content) else Content(words)
    setattr(widget, edge, made if made.plain.strip() else None)
