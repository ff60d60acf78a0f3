"""Draw in ASCII for terminals without UTF-8."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.segment import Segment
from textual.filter import LineFilter

from armada.foundation.ascii_text import in_ascii

if TYPE_CHECKING:
    from textual.color import Color


class InAscii(LineFilter):
    """Also for Textual's own borders and scrollbars."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        del background
        return [Segment(in_ascii(text), style, control) for text, style, control in segments]
