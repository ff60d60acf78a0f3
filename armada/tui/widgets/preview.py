"""Show the loss and the end of the log of the run under the cursor, below the table."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from textual.containers import Horizontal

from armada.foundation.sanitize import sanitize_line
from armada.tui.curves import Curve, no_values
from armada.tui.snapshot import UNREADABLE
from armada.tui.widgets import frame
from armada.tui.widgets.chart import Chart
from armada.tui.widgets.chart_plane import Line
from armada.tui.widgets.gpu_panel import GpuPanel
from armada.tui.widgets.log_tail import LogTail

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.app import ComposeResult

    from armada.tui.app import Dashboard
    from armada.tui.curves import CurveUpdate
    from armada.tui.snapshot import RunRow
    from armada.tui.symbols import Symbols


class Preview(Horizontal):
    """Chart, GPUs and tail, side by side."""

    DEFAULT_CSS = """
    Preview Chart { width: 1fr; }
    Preview #gpus { display: none; height: auto; max-height: 14; }
    """

    def __init__(self, symbols: Symbols) -> None:
        super().__init__()
        self.symbols = symbols
        self._row: RunRow | None = None
        self._curve: tuple[str, str, Curve] | None = None
        """The run, the name of its metric, and its curve."""
        self._is_readable = True
        """Whether a curve that is not here can still come from the store."""
        self.chart = Chart(symbols, classes=frame.FRAME)
        self.tail = LogTail(symbols)
        self.gpus = GpuPanel(symbols)

    def compose(self) -> ComposeResult:
        yield self.chart
        yield self.gpus
        yield self.tail

    @property
    def in_sight(self) -> bool:
        return self.display and self.size.height > 0

    def take(self, row: RunRow | None, updates: Sequence[CurveUpdate]) -> None:
        """Show this run; if its curve was not read yet, it comes with a later snapshot."""
        old = self._row
        moved = (row and (row.run.run_id, row.run.ended)) != (old and (old.run.run_id, old.run.ended))
        readable = cast("Dashboard", self.app).snapshot.trouble is None
        moved = moved or readable != self._is_readable
        self._row, self._is_readable = row, readable
        came = False
        for update in updates:
            if row is None or update.run_id != row.run.run_id:
                continue
            came = True
            if update.fresh is not None:
                self._curve = (update.run_id, update.name, update.fresh)
            elif self._curve is not None and self._curve[:2] == (update.run_id, update.name):
                self._curve[2].extend(update.added)
        if moved or came:
            self._draw_curve()
        self.tick()

    def _draw_curve(self) -> None:
        chart = self.chart
        row = self._row
        if row is None:
            chart.show("", (), empty="no run under the cursor: → unfolds a group")
            return
        lines: tuple[Line, ...] = ()
        title, empty = row.name, "reading …" if self._is_readable else UNREADABLE
        if self._curve is not None and self._curve[0] == row.run.run_id:
            name, curve = sanitize_line(self._curve[1], 60), self._curve[2]
            title, empty = f"{row.name} · {name}", no_values(name, ended=row.run.ended, task=row.run.task)
            if len(curve):
                lines = (Line(name, curve.steps, curve.raw, doubt=curve.doubt(), newest=curve.last_place),)
        chart.show(title, lines, empty=empty)

    def on_resize(self) -> None:
        """Fill the new size at once."""
        self.tick()

    def tick(self) -> None:
        """Read the end of the log again when its file has grown, and the GPUs."""
        row, snapshot = self._row, cast("Dashboard", self.app).snapshot
        if self.gpus.display:
            if row is None or not snapshot.taken_at:
                self.gpus.forget()
            else:
                self.gpus.show_run(row, snapshot)
        if row is None:
            self.tail.forget()
        elif self.in_sight:
            self.tail.show_run(row)

    @property
    def host(self) -> str | None:
        """The host whose GPUs are shown."""
        return self._row.run.host if self._row is not None and self.gpus.display and self.in_sight else None
