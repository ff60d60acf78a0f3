"""Symbols on the screen, for terminals with and without UTF-8. None relies on colour alone."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import NamedTuple

from rich.cells import cell_len, set_cell_size

from armada.foundation.ascii_text import in_ascii, is_utf8_terminal
from armada.verdicts.states import STATE_GLYPHS

ASCII_GLYPHS = {"running": "*", "queued": "q", "submitted": "q", "preparing": ".", "succeeded": "v", "failed": "x"}
ASCII_GLYPHS |= {"cancelled": "-", "unknown": "?"}

_CUT = re.compile(r"(?<=\S)…|…(?=\S)")
"""The mark of a text that was cut; alone, as in `reading …`, it is another sign."""


class Symbols(NamedTuple):
    """One set of symbols."""

    utf8: bool
    states: dict[str, str]
    attention: str
    unreachable: str
    cursor: str
    marked: str
    full: str
    half: str
    empty: str
    sparks: str
    loads: str
    block: str
    none: str
    rule: str
    down: str
    up: str
    opened: str
    closed: str
    guide: str
    star: str
    pin: str
    grid: str
    cut: str

    @property
    def marks(self) -> dict[str, str]:
        """The signs on a curve: where it is not finite, and where its run was resumed. No curve has a capital as its letter."""
        return {"gap": self.states["failed"], "resumed": "↻" if self.utf8 else "R"}

    def text(self, text: str) -> str:
        """Return a text with only characters that this terminal can show."""
        return text if self.utf8 else in_ascii(_CUT.sub(self.cut, text).replace(" °C", " C"))

    def shortened(self, text: str, cells: int) -> str:
        """Return a text in so many cells at most, with a mark where it is cut."""
        shown = self.text(text)
        if cell_len(shown) <= cells:
            return shown
        return set_cell_size(shown, cells - 1) + self.cut if cells > 0 else ""

    def meter(self, fraction: float, width: int) -> tuple[str, str]:
        """Return a thin bar in two parts, what is done and the rest, for two styles; together `width` cells."""
        share = fraction if math.isfinite(fraction) else 0.0
        halves = round(min(1.0, max(0.0, share)) * width * 2)
        done = self.full * (halves // 2) + self.half * (halves % 2)
        return done, self.empty * (width - len(done))

    def bar(self, fraction: float, width: int) -> str:
        return "".join(self.meter(fraction, width))

    def strip(self, shares: Sequence[float | None]) -> str:
        """Draw loads between 0 and 1 over time, one character each. They stay below the full height: rows must not melt."""
        top = len(self.loads) - 1
        return "".join(
            " " if share is None or not math.isfinite(share) else self.loads[round(min(1.0, max(0.0, share)) * top)]
            for share in shares
        )

    def strips(self, shares: Sequence[float | None], rows: int) -> list[str]:
        """Draw the same over several lines, the top one first, as bars on a common ground."""
        known = [
            None if share is None or not math.isfinite(share) else min(1.0, max(0.0, share)) * rows for share in shares
        ]
        return ["".join(self._part(height, row) for height in known) for row in reversed(range(rows))]

    def _part(self, height: float | None, row: int) -> str:
        """Return what of a bar of `height` rows is in a row that is counted from the ground."""
        if height is None or (height <= row and row):
            return " "
        if height >= row + 1:
            return self.block
        return self.sparks[max(0, math.ceil((height - row) * len(self.sparks)) - 1)]

    def spark(self, values: Sequence[float | None]) -> str:
        """Draw a sparkline: one character per value; a gap is a space.

        Its height is the range of the last four fifths: a loss falls steeply at first, and all after that would be a line.
        """
        known = [value for value in values if value is not None and math.isfinite(value)]
        if not known:
            return ""
        late = known[len(known) // 5 :]
        low, high = min(late) / 2, max(late) / 2  # a float cannot hold the span from -1e308 to 1e308
        top = len(self.sparks) - 1
        span = high - low
        return "".join(
            " "
            if value is None or not math.isfinite(value)
            else self.sparks[round(min(1.0, max(0.0, (value / 2 - low) / span)) * top) if span > 0 else 0]
            for value in values
        )


UNICODE = Symbols(
    utf8=True,
    states=STATE_GLYPHS,
    attention="▲",
    unreachable="◌",
    cursor="▸",
    marked="◆",
    full="━",
    half="╸",
    empty="─",
    sparks="▁▂▃▄▅▆▇█",
    loads="▁▂▃▄▅▆",
    block="█",
    none="—",
    rule="─",
    down="▼",
    up="▲",
    opened="▾",
    closed="▸",
    guide="└",
    star="★",
    pin="↑",
    grid="┈",
    cut="…",
)
ASCII = Symbols(
    utf8=False,
    states=ASCII_GLYPHS,
    attention="!",
    unreachable="o",
    cursor=">",
    marked="+",
    full="#",
    half="#",
    empty=".",
    sparks="_.-=^",
    loads="_.-=^",
    block="#",
    none="-",
    rule="-",
    down="v",
    up="^",
    opened="v",
    closed=">",
    guide="`",
    star="%",
    pin="^",
    grid="-",
    cut="~",
)


def of_terminal() -> Symbols:
    """Return the symbols that the terminal's locale can encode."""
    return UNICODE if is_utf8_terminal() else ASCII
