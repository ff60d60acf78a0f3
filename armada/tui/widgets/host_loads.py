"""The hosts in a frame, one line each: the load of their GPUs now and over time, and what they cost."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, cast

from rich.cells import cell_len

from armada.foundation.sanitize import sanitize_line
from armada.tui.gpu_strips import MINUTES, faded, together
from armada.tui.host_runs import NO_RUNS, is_idle_money
from armada.tui.widgets.panel import Panel
from armada.tui.widgets.run_signs import host_sign

if TYPE_CHECKING:
    from armada.tui.app import Dashboard
    from armada.tui.host_runs import RunsOfHost
    from armada.tui.snapshot import HostView, Snapshot
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
        runs = cast("Dashboard", self.app).host_runs.read(snapshot)
        found = [(host, runs.get(host.name, NO_RUNS)) for host in snapshot.hosts if host.gpus]
        found.sort(key=lambda pair: (not pair[1].active, pair[0].tariff is None, pair[0].name))
        wide = max((cell_len(sanitize_line(host.name, NAMES)) for host, _ in found), default=0)
        most = max((len(host.gpus) for host, _ in found), default=0)
        lines = [self._line(host, of_host, wide, most, now) for host, of_host in found]
        self.show(lines or [[("no host with GPUs was checked yet: 3 shows the hosts", "dim")]])

    def _line(self, host: HostView, runs: RunsOfHost, wide: int, most: int, now: float) -> Spans:
        name = sanitize_line(host.name, NAMES)
        sign, tone = host_sign(host, runs.active, self.symbols)
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
            idle = " idle" if not runs.active and price.amount else ""
            spans.append((f"  {price.text}{idle}", "warn" if is_idle_money(host, runs, now) else "more"))
        return spans
