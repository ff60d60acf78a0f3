"""Show the loss and the end of the log of the run under the cursor, below the table."""

from __future__ import annotations

import time
from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar, cast

from rich.style import Style
from rich.text import Text
from textual.containers import Horizontal
from textual.widgets import Static

from armada.foundation.sanitize import coloured_state, last_state, sanitize_line
from armada.tui import logs
from armada.tui.curves import Curve
from armada.tui.gpu_strips import panel_lines
from armada.tui.log_colours import NAMES, css_of, paint
from armada.tui.log_file import LINE_BYTES
from armada.tui.severity import Severities
from armada.tui.widgets import frame
from armada.tui.widgets.chart import Chart
from armada.tui.widgets.chart_plane import Line
from armada.tui.widgets.panel import Panel

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from textual.app import ComposeResult

    from armada.tui.app import Dashboard
    from armada.tui.curves import CurveUpdate
    from armada.tui.snapshot import RunRow
    from armada.tui.symbols import Symbols

TAIL_BYTES = 65_536
MARKED_BEFORE = 100
"""How many lines before those in sight may have begun a traceback that goes on in sight."""


class Preview(Horizontal):
    """Chart and tail, side by side."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {f"log--{name}" for name in ("dim", *NAMES)}
    DEFAULT_CSS = f"""
    Preview Chart {{ width: 1fr; }}
    Preview #gpus {{ display: none; height: auto; max-height: 14; }}
    Preview #tail {{ width: 1fr; height: 1fr; color: $foreground; }}
    {css_of("Preview")}
    """

    def __init__(self, symbols: Symbols) -> None:
        super().__init__()
        self.symbols = symbols
        self._row: RunRow | None = None
        self._curve: tuple[str, Curve] | None = None
        self._tail: object = None
        self._gpus_of: object = None
        self.chart = Chart(symbols, classes=frame.FRAME)
        self.tail = Static(id="tail", classes=frame.FRAME)
        frame.title(self.tail, "log")
        self.gpus = Panel(symbols, "GPUs", id="gpus")

    def compose(self) -> ComposeResult:
        yield self.chart
        yield self.gpus
        yield self.tail

    @property
    def in_sight(self) -> bool:
        return self.display and self.size.height > 0

    def take(self, row: RunRow | None, updates: Sequence[CurveUpdate]) -> None:
        """Show this run; if its curve was not read yet, it comes with a later snapshot."""
        moved = (row.run.run_id if row else None) != (self._row.run.run_id if self._row else None)
        self._row = row
        came = False
        for update in updates:
            if row is None or update.run_id != row.run.run_id:
                continue
            came = True
            if update.fresh is not None:
                self._curve = (update.run_id, update.fresh)
            elif self._curve is not None and self._curve[0] == update.run_id:
                self._curve[1].extend(update.added)
        if moved or came:
            self._draw_curve()
        if moved:
            self._tail = None
        self.tick()

    def forget(self) -> None:
        """Be as a new one: no run is shown."""
        self._row = self._curve = self._tail = self._gpus_of = None
        self.chart.forget()
        self.gpus.show([])
        self.tick()

    def show_run(self, row: RunRow | None, curve: Curve | None) -> None:
        """Show a run whose curve somebody else keeps; None while it is not read."""
        self._row = row
        self._curve = (row.run.run_id, curve) if row is not None and curve is not None else None
        self._draw_curve()
        self.tick()

    def _draw_curve(self) -> None:
        chart = self.chart
        row = self._row
        if row is None:
            chart.show("", (), empty="no run under the cursor: → unfolds a group")
            return
        lines: tuple[Line, ...] = ()
        read = self._curve is not None and self._curve[0] == row.run.run_id
        if self._curve is not None and read and len(self._curve[1]):
            curve = self._curve[1]
            lines = (Line("loss", curve.steps, curve.raw, doubt=curve.doubt()),)
        chart.show(f"{row.name} · loss", lines, empty="no loss yet" if read else "reading …")

    def on_resize(self) -> None:
        """Fill the new size at once."""
        self.tick()

    def tick(self) -> None:
        """Read the end of the log again when its file has grown, and the GPUs."""
        if self.gpus.display:
            self._draw_gpus()
        if self._row is None:
            self.tail.update("", layout=False)
            frame.facts(self.tail, "")
        if not self.in_sight or self._row is None:
            return
        run = self._row.run
        path = logs.at_home(cast("Dashboard", self.app).home, run, local=run.host == "local")
        stat = path.stat() if path is not None else None
        size = self.tail.size
        board = cast("Dashboard", self.app)
        sync = board.snapshot.syncs.get(run.run_id)
        old = logs.brief_age(board.home, run, path, sync, time.time()) if path is not None else ""
        frame.facts(self.tail, self.symbols.text(old))
        written = (stat.st_size, stat.st_mtime) if stat else ()
        colours = (self.app.theme, *map(self._style, ("dim", *NAMES)))  # a theme reaches a screen that was left later
        stamp = (run.run_id, path, written, size, colours)
        if stamp == self._tail:
            return
        self._tail = stamp
        self.tail.update(self._read(path, max(1, size.height), max(10, size.width)), layout=False)

    @property
    def host(self) -> str | None:
        """The host whose GPUs are shown."""
        return self._row.run.host if self._row is not None and self.gpus.display and self.in_sight else None

    def _draw_gpus(self) -> None:
        row, snapshot = self._row, cast("Dashboard", self.app).snapshot
        if row is None or not snapshot.taken_at:
            self._gpus_of = None
            self.gpus.show([])
            return
        host = next((each for each in snapshot.hosts if each.name == row.run.host), None)
        made_from = (host, row.run.gpus, self.gpus.size)
        if made_from == self._gpus_of:
            return
        self._gpus_of = made_from
        width, height = self.gpus.size
        self.gpus.show(panel_lines(host, row.run.gpus or (), self.symbols, width - 2, height))
        frame.title(self.gpus, self.symbols.text(f"{row.host} now" if row.run.ended else row.host))

    def _read(self, path: Path | None, height: int, width: int) -> Text:
        if path is None:
            return Text(self.symbols.text(" log not synced yet; press l to follow"), self._style("dim"))
        with path.open("rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - TAIL_BYTES))
            read = file.read(TAIL_BYTES).decode("utf-8", "replace").removesuffix("\n")
        lines = read.split("\n") if read and height > 0 else []
        if not lines:
            return Text(" nothing printed yet", self._style("dim"))
        severities, before = Severities(), lines[:-height][-MARKED_BEFORE:]
        for line in before:  # they may have begun a traceback
            severities.mark(sanitize_line(last_state(line), LINE_BYTES))
        styles = {name: self._style(name) for name in NAMES}
        return Text("\n", no_wrap=True).join(self._line(line, severities, styles, width) for line in lines[-height:])

    def _line(self, raw: str, severities: Severities, styles: Mapping[str, Style], width: int) -> Text:
        """Return a line in its colours, cut to the width: a longer one would continue on the next line."""
        text, spans = paint(coloured_state(raw), LINE_BYTES, severities, styles, Style.null(), self.app.theme_variables)
        line, edges = Text(" "), sorted({edge for start, end, _ in spans for edge in (start, end)})
        for start, end in pairwise(edges):
            own = next((each[2] for each in reversed(spans) if each[0] <= start < each[1]), Style.null())
            line.append(self.symbols.text(text[start:end]), own)
            if line.cell_len > width:
                line.truncate(width - 1, overflow="crop")
                return line.append("…" if self.symbols.utf8 else "~")
        return line

    def _style(self, name: str) -> Style:
        return self.get_component_rich_style(f"log--{name}", partial=True)
