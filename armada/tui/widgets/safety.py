"""One picture of what is safe: a line for each host, with its checkpoints as a bar; and what came home last."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from rich.cells import cell_len

from armada.tui.widgets import frame
from armada.tui.widgets.answers import Tally, no_hosts
from armada.tui.widgets.host_safety import Safety, gone_hosts, moving_by_host, safety_lines
from armada.tui.widgets.panel import Panel
from armada.units import clock, counted, rough_span

if TYPE_CHECKING:
    from armada.tui.snapshot import RunRow, Snapshot
    from armada.tui.symbols import Symbols
    from armada.tui.widgets.table import Span

NAMES = 40
"""Cells of a run's name."""
WIDE = 100
"""Columns from which the bars are long."""
BORDERS = 2
HIGH = 20
"""Lines of a screen that has room for the picture beside its table."""


def bar(symbols: Symbols, safety: Safety, moving: int, width: int) -> list[Span]:
    """Draw which share of a host's checkpoints is at home as a bar, and what its rest is by colours alone.

    It is full only if all of them are at home and the host answers: what one that does not answer has is not known.

    Args:
        symbols: What the terminal can show.
        safety: How many there are of each kind; those on the way are among those that are only there.
        moving: How many are on the way.
        width: Cells of the bar.
    """
    there = max(0, safety.only_host - moving)
    unknown = int(safety.unreachable_since is not None and not (there or safety.damaged))
    kinds = [(safety.home, "good"), (moving, "accent"), (there, "warn"), (safety.damaged, "bad"), (unknown, "faint")]
    whole = sum(count for count, _ in kinds) - unknown
    if not whole:
        return [(symbols.empty * width, "faint")]
    cells = [max(1, int(width * count / (whole + unknown))) if count else 0 for count, _ in kinds]
    cells[cells.index(max(cells))] += width - sum(cells)  # each kind that there is has a cell
    signs = [symbols.full, *[symbols.empty] * 4]
    return [(sign * wide, style) for sign, wide, (_, style) in zip(signs, cells, kinds, strict=True) if wide]


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
        is_wide = self.screen.size.width >= WIDE

        def picture(each: Safety, travels: int, is_narrow: bool) -> list[Span]:
            return [*bar(self.symbols, each, travels, 24 if is_wide and not is_narrow else 10), ("  ", "plain")]

        cells = self.screen.size.width - BORDERS
        found = self._tally.safety
        lines = safety_lines(self.symbols, found, moving, now, cells, picture, gone_hosts(snapshot, found))
        self.show(lines or no_hosts(snapshot))
        room = self.screen.size.height * 2 // 5 - 2
        frame.facts(self, f" {counted(len(lines) - room, 'more host')} " if len(lines) > room else "")


class CameHome(Panel):
    """The checkpoints that came home last: a line for the newest of each run."""

    def __init__(self, symbols: Symbols, tally: Tally) -> None:
        super().__init__(symbols, "What came home last")
        self._tally = tally

    def take(self, snapshot: Snapshot) -> None:
        """Draw a snapshot, if this is visible and was laid out."""
        if not self.display or not snapshot.taken_at or not self.size.height:
            return
        self._tally.take(snapshot)
        now = time.time()
        shown = self._tally.arrivals[: self.size.height]
        names = [self.symbols.shortened(row.name, NAMES) for _, row in shown]
        wide = max(map(cell_len, names), default=0)
        lines = [self._line(*each, name, now, wide) for each, name in zip(shown, names, strict=True)]
        self.show(lines or [[("no checkpoint came home yet", "dim")]])

    def _line(self, moment: float, row: RunRow, name: str, now: float, wide: int) -> list[Span]:
        kept = row.kept
        spans: list[Span] = [
            (f"{clock(moment, now):<9} ", "dim"),
            (f"{name}{' ' * (wide - cell_len(name))}", "strong"),
            (f"  ckpt-{kept.home_step or 0:<10}", "good"),
            (f" {rough_span(now - moment):>5} ago · {counted(kept.home, 'checkpoint')} home", "dim"),
        ]
        if kept.only_host:
            spans.append((f", {kept.only_host} only on {row.host}", "warn"))
        if kept.damaged:
            spans.append((f", {kept.damaged} damaged", "bad"))
        return spans
