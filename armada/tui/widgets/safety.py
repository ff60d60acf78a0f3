"""One picture of what is safe: a line for each host, with its checkpoints as a bar."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from armada.tui.widgets import frame
from armada.tui.widgets.answers import Safety, Tally, moving_by_host, nothing_yet, safety_line, widest
from armada.tui.widgets.panel import Panel

if TYPE_CHECKING:
    from armada.tui.snapshot import Snapshot
    from armada.tui.symbols import Symbols
    from armada.tui.widgets.table import Span

WIDE = 100
"""Columns from which the bars are long."""
HIGH = 20
"""Lines of a screen that has room for the picture beside its table."""


def bar(symbols: Symbols, safety: Safety, moving: int, width: int) -> list[Span]:
    """Draw a host's checkpoints, each kind in its colour and in this order: home, on the way, only there, damaged at home.

    Args:
        symbols: What the terminal can show.
        safety: How many there are of each kind; those on the way are among those that are only there.
        moving: How many are on the way.
        width: Cells of the bar.
    """
    there = max(0, safety.only_host - moving)
    kinds = [(safety.home, "good"), (moving, "accent"), (there, "warn"), (safety.damaged, "bad")]
    whole = sum(count for count, _ in kinds)
    if not whole:
        return [(symbols.empty * width, "faint")]
    cells = [max(1, round(width * count / whole)) if count else 0 for count, _ in kinds]
    cells[cells.index(max(cells))] += width - sum(cells)  # each kind that there is has a cell
    return [(symbols.full * wide, style) for wide, (_, style) in zip(cells, kinds, strict=True) if wide]


class SafetyPicture(Panel):
    """What of each host is home, travels, or is only there; the host with the most at risk first."""

    DEFAULT_CSS = "SafetyPicture { height: auto; max-height: 40%; }"

    def __init__(self, symbols: Symbols, tally: Tally) -> None:
        super().__init__(symbols, "Is everything safe?  checkpoints of each host")
        self._tally = tally

    def take(self, snapshot: Snapshot) -> None:
        """Draw a snapshot, if this is visible."""
        self.display = self.screen.size.height >= HIGH
        if not self.display or not snapshot.taken_at:
            return
        self._tally.take(snapshot)
        now, moving = time.time(), moving_by_host(snapshot)
        width = 24 if self.screen.size.width >= WIDE else 10
        lines, wide = [], widest(self._tally.safety)
        for each in self._tally.safety:
            travels = moving.get(each.host, [])
            picture = [*bar(self.symbols, each, len(travels), width), ("  ", "plain")]
            lines.append(safety_line(self.symbols, each, travels, now, wide, picture))
        self.show(lines or nothing_yet())
        room = self.screen.size.height * 2 // 5 - 2
        frame.facts(self, f" {len(lines) - room} more hosts " if len(lines) > room else "")
