"""Frames: a rounded border with a title in its upper edge, and facts or keys in its lower one. The focused one is lit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.containers import Vertical
from textual.content import Content

if TYPE_CHECKING:
    from textual.widget import Widget

FRAME = "frame"
"""The class of a widget that is a frame."""
DIALOG = "dialog"
"""The class of a window's box: it has the focus while it is there, so it is lit."""
CSS = """
.dialog {
    border: round $accent; padding: 0 1; background: $panel;
    border-title-color: $text-accent; border-title-style: bold;
    border-subtitle-color: $text-muted; border-subtitle-align: right;
}
.dialog Table, .dialog LogView { background: $panel; }
.dialog.asks { border: round $warning; border-title-color: $text-warning; }
.dialog.danger { border: heavy $error; border-title-color: $text-error; }
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


def is_drawn(widget: Widget) -> bool:
    """Return whether a frame has its edges: on a small terminal it has none, and what is written into them is not seen."""
    return bool(widget.styles.border_bottom[0])


def keys(*pairs: tuple[str, str]) -> Content:
    """Return keys with what they do, for the lower edge of a window."""
    parts = [Content.assemble((key, "bold $text-accent"), f" {words}") for key, words in pairs]
    return Content("  ").join(parts)


def dialog(title_words: str, *pairs: tuple[str, str], kind: str = "") -> Vertical:
    """Return the box of a window, with its title in the upper edge and its keys in the lower one; the words come sanitized.

    Args:
        title_words: What the window is about.
        pairs: Its keys, with what they do.
        kind: `asks` for a question, `danger` for one about something that cannot be undone.
    """
    box = Vertical(classes=f"{DIALOG} {kind}")
    title(box, title_words)
    facts(box, keys(*pairs) if pairs else "")
    return box


def _write(widget: Widget, edge: str, words: str | Content) -> None:
    """Write into an edge of a frame if its text changed: a new title repaints the whole frame."""
    known = f"_armada_{edge}"
    if getattr(widget, known, None) == words:
        return
    setattr(widget, known, words)
    made = words if isinstance(words, Content) else Content(words)
    setattr(widget, edge, made if made.plain.strip() else None)
