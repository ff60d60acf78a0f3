"""Symbols on the screen, for terminals with and without UTF-8. None relies on colour alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from armada.foundation.ascii_text import in_ascii, is_utf8_terminal
from armada.verdicts.states import STATE_GLYPHS

ASCII_GLYPHS = {"running": "*", "queued": "q", "submitted": "q", "preparing": ".", "succeeded": "v", "failed": "x"}
ASCII_GLYPHS |= {"cancelled": "-", "unknown": "?"}


@dataclass(frozen=True, slots=True)
class Symbols:
    """One set of symbols."""

    utf8: bool
    states: dict[str, str]
    attention: str
    unreachable: str
    cursor: str
    marked: str
    bars: str
    full: str
    empty: str
    sparks: str
    none: str
    rule: str
    down: str
    up: str
    opened: str
    closed: str

    def text(self, text: str) -> str:
        """Return a text with only characters that this terminal can show."""
        return text if self.utf8 else in_ascii(text)

    def bar(self, fraction: float, width: int) -> str:
        eighths = len(self.bars)
        filled = round(min(1.0, max(0.0, fraction)) * width * eighths)
        whole, rest = divmod(filled, eighths)
        bar = self.full * whole + (self.bars[rest - 1] if rest else "")
        return bar + self.empty * (width - len(bar))

    def spark(self, values: Sequence[float | None]) -> str:
        """Draw a sparkline: one character per value; a gap is a space."""
        known = [value for value in values if value is not None and math.isfinite(value)]
        if not known:
            return ""
        low, high = min(known), max(known)
        scale = (len(self.sparks) - 1) / (high - low) if high > low else 0.0
        return "".join(
            " " if value is None or not math.isfinite(value) else self.sparks[round((value - low) * scale)]
            for value in values
        )


UNICODE = Symbols(
    True, STATE_GLYPHS, "▲", "◌", "▸", "◆", "▏▎▍▌▋▊▉█", "█", "·", "▁▂▃▄▅▆▇█", "—", "─", "▼", "▲", "▾", "▸"
)
ASCII = Symbols(False, ASCII_GLYPHS, "!", "?", ">", "+", "#", "#", ".", "_.-=^", "-", "-", "v", "^", "v", ">")


def of_terminal() -> Symbols:
    """Return the symbols that the terminal's locale can encode."""
    return UNICODE if is_utf8_terminal() else ASCII
