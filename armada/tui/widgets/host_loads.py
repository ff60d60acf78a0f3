"""The hosts in a frame, one line each: the load of their GPUs now and over time, and what they cost."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from rich.cells import cell_len

from armada.foundation.sanitize import sanitize_line
from armada.tui.gpu_strips import MINUTES, faded, together
from armada.tui.widgets.panel import Panel
from armada.tui.widgets.run_signs import host_sign

if TYPE_CHECKING:
    from collections.abc import Sequence

    from armada.tui.snapshot import HostView, RunRow, Snapshot
    from armada.tui.symbols import Symbols
    from armada.tui.widgets.panel import Spans

NAMES = 14
BESIDES = 51
"""Cells for everything but the name and the strip over time."""
MOST = 40


class HostLoads(Panel):
    """Shows hosts that have GPUs, those with active runs first, then those that cost money."""

    def __init__(self, symbols: Symbols, *, id: str) -> None:  # noqa: A002
        super().__init__(symbols, "What do the GPUs do?  15 minutes", id=id)

    def take(self, snapshot: Snapshot) -> None:
        """Draw a snapshot, if this is visible."""
        if not self.display or not snapshot.taken_at or not self.size.height:
            return
        now = time.time()
        busy: dict[str, list[RunRow]] = {}
        for row in snapshot.runs:
            if not row.run.ended:
                busy.setdefault(row.run.host, []).append(row)
        found = [host for host in snapshot.hosts if host.gpus]
        found.sort(key=lambda host: (host.name not in busy, host.tariff is None, host.name))
        wide = max((cell_len(sanitize_line(host.name, NAMES)) for host in found), default=0)
        most = max((len(host.gpus) for host in found), default=0)
        lines = [self._line(host, busy.get(host.name, ()), wide, most, now) for host in found]
        self.show(lines or [[("no host with GPUs was checked yet: 3 shows the hosts", "dim")]])

    def _line(self, host: HostView, busy: Sequence[RunRow], wide: int, most: int, now: float) -> Spans:
        name = sanitize_line(host.name, NAMES)
        sign, tone = host_sign(host, busy, self.symbols)
        spans: Spans = [
            (f"{sign} ", tone),
            (f"{name}{' ' * (wide - cell_len(name))}  ", "strong"),
        ]
        room = max(0, min(MOST, self.size.width - wide - most - BESIDES))
        load = together(host.gpus, host.telemetry, self.symbols, room, places=most)
        for words, style in faded(load) if host.is_stale(now) else load:
            if words != MINUTES:  # the title says it
                spans.append((words, "more" if style == "dim" else style))
        price = host.tariff.price_at(now) if host.tariff is not None else None
        if price is not None:
            idle = not busy and bool(price.amount)
            spans.append((f"  {price.text}{' idle' if idle else ''}", "warn" if idle else "more"))
        return spans
