"""Show running operations, one line each, on every screen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text
from textual.widgets import Static

from armada.foundation.sanitize import sanitize_line
from armada.units import amount, span

if TYPE_CHECKING:
    from armada.store.operations import Operation
    from armada.tui.snapshot import Snapshot
    from armada.tui.symbols import Symbols

SHOWN = 4
SILENT_S = 30.0


class Notice(Static):
    """Shows why nothing is kept, and problems in the user's files; takes no space if there are none."""

    DEFAULT_CSS = "Notice { height: auto; max-height: 3; color: $text-warning; padding: 0 1; }"

    def __init__(self, symbols: Symbols) -> None:
        super().__init__(id="notice")
        self.symbols = symbols
        self.display = False
        self._shown = ""

    def take(self, snapshot: Snapshot) -> None:
        unkept = snapshot.home_trouble if not getattr(self.app, "read_only", False) else None
        words = unkept or snapshot.config_trouble or ""
        if words != self._shown:
            self._shown = words
            self.update(Text(self.symbols.text(f"{self.symbols.attention} {words}")))
            self.display = bool(words)


class Going(Static):
    """Shows running operations; takes no space if there are none."""

    DEFAULT_CSS = f"Going {{ height: auto; max-height: {SHOWN}; color: $text-accent; }}"

    def __init__(self, symbols: Symbols) -> None:
        super().__init__(id="going")
        self.symbols = symbols
        self.display = False  # an empty text would still take a line
        self._shown = ""

    def take(self, snapshot: Snapshot, now: float) -> None:
        lines = [operation_line(each, self.symbols, now) for each in snapshot.operations if each.state == "running"]
        width = max(10, self.app.size.width - 1)
        words = "\n".join(line[:width] for line in lines[:SHOWN])
        if words != self._shown:  # a change of its height lays out everything again: 10 ms
            self._shown = words
            self.update(Text(words, no_wrap=True))
            self.display = bool(words)  # an empty text would take a line


def operation_line(each: Operation, symbols: Symbols, now: float) -> str:
    """Format an operation: `launch box: provision Downloading torch … 42%`."""
    share = ""
    if each.done_bytes is not None and each.total_bytes:
        share = f" {symbols.bar(each.done_bytes / each.total_bytes, 12)} {each.done_bytes / each.total_bytes:.0%}"
        share += f" {amount(each.rate)}/s" if each.rate else ""
    about = " ".join(sanitize_line(part, 80) for part in (each.run_id, each.host) if part)
    said = " ".join(sanitize_line(part, 200) for part in (each.step, each.message) if part)
    silent = f" (silent for {span(now - each.updated_at)})" if now - each.updated_at > SILENT_S else ""
    return symbols.text(f" {each.kind} {about}: {said}{share}{silent}")
