"""The end of a run's log, in a frame."""

from __future__ import annotations

import contextlib
import time
from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar, cast

from rich.style import Style
from rich.text import Text
from textual.widgets import Static

from armada.foundation.sanitize import coloured_state, last_state, sanitize_line
from armada.tui import logs
from armada.tui.log_colours import NAMES, css_of, paint
from armada.tui.log_file import LINE_BYTES, reason_of
from armada.tui.severity import Severities
from armada.tui.widgets import frame

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from armada.tui.app import Dashboard
    from armada.tui.snapshot import RunRow
    from armada.tui.symbols import Symbols

TAIL_BYTES = 65_536
MARKED_BEFORE = 100
"""How many lines before those in sight may have begun a traceback that goes on in sight."""


class LogTail(Static):
    """Reads the end of the log again when its file has grown.

    Attributes:
        available: How many lines there are to show, as far as they were read.
    """

    COMPONENT_CLASSES: ClassVar[set[str]] = {f"log--{name}" for name in ("dim", *NAMES)}
    DEFAULT_CSS = f"""
    LogTail {{ width: 1fr; height: 1fr; color: $foreground; }}
    {css_of("LogTail")}
    """

    def __init__(self, symbols: Symbols) -> None:
        super().__init__(id="tail", classes=frame.FRAME)
        self.symbols = symbols
        self.available = 1
        self._row: RunRow | None = None
        self._made_from: object = None
        frame.title(self, "log")

    def forget(self) -> None:
        """Be as a new one: no run is shown."""
        self._row = self._made_from = None
        self.available = 1
        self.update("", layout=False)
        frame.facts(self, "")

    def show_run(self, row: RunRow) -> None:
        """Show the end of a run's log as it is now."""
        self._row = row
        run, board, size = row.run, cast("Dashboard", self.app), self.size
        path = logs.at_home(board.home, run, local=run.host == "local")
        stat = None
        with contextlib.suppress(OSError):  # it was deleted a moment ago, or cannot be read: reading it says why
            stat = path.stat() if path is not None else None
        sync = board.snapshot.syncs.get(run.run_id)
        old = logs.brief_age(board.home, run, path, sync, time.time()) if path is not None else ""
        frame.facts(self, self.symbols.text(old))
        written = (stat.st_size, stat.st_mtime) if stat else ()
        colours = (self.app.theme, *map(self._style, ("dim", *NAMES)))  # a theme reaches a screen that was left later
        made_from = (run.run_id, path or logs.why_none(run), written, size, colours)
        if made_from == self._made_from:
            return
        self._made_from = made_from
        if path is None:
            self.available = 1
            self.update(Text(self.symbols.text(f" {logs.why_none(run)}"), self._style("dim")), layout=False)
            return
        try:
            text = self._read(path, max(1, size.height), max(10, size.width))
        except OSError as error:
            self._made_from = None  # the next call tries again
            text = Text(self.symbols.text(f" the log cannot be read: {reason_of(error)}"), self._style("dim"))
        self.update(text, layout=False)

    def on_resize(self) -> None:
        """Fill the new size at once."""
        if self._row is not None:
            self.show_run(self._row)

    def _read(self, path: Path, height: int, width: int) -> Text:
        self.available = 1
        with path.open("rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - TAIL_BYTES))
            read = file.read(TAIL_BYTES).decode("utf-8", "replace").removesuffix("\n")
        lines = read.split("\n") if read and height > 0 else []
        if not lines:
            return Text(" nothing printed yet", self._style("dim"))
        self.available = len(lines)
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
                return line.append(self.symbols.cut)
        return line

    def _style(self, name: str) -> Style:
        return self.get_component_rich_style(f"log--{name}", partial=True)
