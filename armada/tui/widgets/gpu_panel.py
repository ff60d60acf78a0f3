"""The GPUs of a run over the last minutes, in a frame."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, cast

from armada.tui.gpu_strips import faded, panel_lines
from armada.tui.widgets import frame
from armada.tui.widgets.panel import Panel

if TYPE_CHECKING:
    from armada.tui.app import Dashboard
    from armada.tui.snapshot import HostView, RunRow, Snapshot
    from armada.tui.symbols import Symbols


class GpuPanel(Panel):
    """Those of the run; all of its host while it has none."""

    def __init__(self, symbols: Symbols) -> None:
        super().__init__(symbols, "GPUs", id="gpus")
        self._row: RunRow | None = None
        self._made_from: object = None

    def forget(self) -> None:
        """Be as a new one: no run is shown."""
        self._row = self._made_from = None
        self.show([])

    def show_run(self, row: RunRow, snapshot: Snapshot) -> None:
        """Show the GPUs as they were last read."""
        self._row = row
        host = host_of(row, snapshot)
        is_stale = host is not None and host.is_stale(time.time())
        made_from = (host, row.run.gpus, self.size, is_stale)
        if made_from == self._made_from:
            return
        self._made_from = made_from
        width, height = self.size
        lines = panel_lines(host, row.run.gpus or (), self.symbols, width - 2, height)
        self.show([faded(line) for line in lines] if is_stale else lines)
        frame.title(self, self.symbols.text(f"{row.host} now" if row.run.ended else row.host))

    def on_resize(self) -> None:
        """Fill the new size at once."""
        if self._row is not None:
            self.show_run(self._row, cast("Dashboard", self.app).snapshot)


def host_of(row: RunRow, snapshot: Snapshot) -> HostView | None:
    """Return the host that a run is on; None if it is not known."""
    return next((each for each in snapshot.hosts if each.name == row.run.host), None)
