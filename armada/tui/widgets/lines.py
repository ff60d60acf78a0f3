"""The top line, with states and costs, and the key line at the bottom."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual.widget import Widget
from textual.widgets import Input

from armada.costs.amounts import total
from armada.tui.bindings import Key, of
from armada.tui.snapshot import EMPTY, Snapshot
from armada.units import span

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.style import Style

    from armada.tui.symbols import Symbols


WIDE = 100
"""Below this width only the total cost is shown."""
SCREENS_SHOWN = "1-8 screens  "


class TopLine(Widget):
    """Counts, money, the daemon's age."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"top--good", "top--warn"}
    DEFAULT_CSS = """
    TopLine { height: 1; background: $panel; color: $foreground; }
    TopLine > .top--good { color: $text-success; }
    TopLine > .top--warn { color: $text-warning; text-style: bold; }
    """

    def __init__(self, symbols: Symbols, place: str) -> None:
        super().__init__()
        self.symbols = symbols
        self.place = place
        self.snapshot: Snapshot = EMPTY
        self._shown = ""

    def take(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.tick()

    def tick(self) -> None:
        """Draw again if the text changed, as the daemon's age does each second."""
        if (words := self._words().plain) != self._shown:
            self._shown = words
            self.refresh()

    def render(self) -> Text:
        return self._words()

    def _words(self) -> Text:
        snapshot, symbols, now = self.snapshot, self.symbols, time.time()
        good, warn = (self.get_component_rich_style(name) for name in ("top--good", "top--warn"))
        if snapshot.trouble is not None:
            return Text.assemble((" armada", "bold"), "  ", (symbols.text(snapshot.trouble), warn))
        running, queued, need = snapshot.counts.running, snapshot.counts.waiting, snapshot.counts.troubled
        parts = [Text(f" armada {self.place}".rstrip(), "bold")]
        parts.append(Text(f"  {symbols.states['running']} {running} running", good if running else "dim"))
        if queued:
            parts.append(Text(f"  {symbols.states['queued']} {queued} queued"))
        if need:
            parts.append(Text(f"  {symbols.attention} {need} need{'s' if need == 1 else ''} you", warn))
        if unread := getattr(self.app, "unread", 0):
            parts.append(Text(f"  {unread} unread (8)", "bold"))
        if (money := snapshot.money) is not None:
            burning = total([money.per_hour, money.idle_per_hour]).text() or "unknown"
            idle = f" (idle {money.idle_per_hour.text()})" if any(money.idle_per_hour.by_currency.values()) else ""
            figures = [f"burning {burning}/h{idle}" if self.size.width >= WIDE else f"{burning}/h"]
            figures += [f"{money.week.text(rough=True)} for runs this week"] if money.week.is_known else []
            parts += [Text(symbols.text(f"{' · ' if place else '  '}{each}")) for place, each in enumerate(figures)]
        daemon = self._daemon(now, good, warn)
        while len(parts) > 1 and sum(part.cell_len for part in parts) + daemon.cell_len + 3 > self.size.width:
            parts.pop()
        line = Text("").join(parts)
        line.append(" " * max(2, self.size.width - line.cell_len - daemon.cell_len - 1))
        line.append_text(daemon)
        line.no_wrap = True
        return line

    def _daemon(self, now: float, good: Style, warn: Style) -> Text:
        daemon = self.snapshot.daemon
        if daemon is None:
            return Text("")
        if daemon.tick_at is None:
            return Text("no daemon", warn)
        ticked = span(now - daemon.tick_at)
        if daemon.condition == "fresh":
            return Text(f"daemon {self.symbols.states['succeeded']} {ticked} ago", good)
        words = f"daemon silent for {ticked}" if daemon.condition == "stale" else f"daemon ended {ticked} ago"
        return Text(words, warn)


class KeyLine(Widget):
    """The keys that work here; each can be clicked."""

    DEFAULT_CSS = "KeyLine { height: 1; background: $panel; color: $foreground; dock: bottom; }"

    def __init__(self, symbols: Symbols, places: Sequence[str], *, read_only: bool) -> None:
        super().__init__()
        self.symbols = symbols
        self.places = tuple(places)
        self.read_only = read_only

    def render(self) -> Text:
        """Show as many keys of this screen as fit; help, palette and quit are always shown."""
        typing = isinstance(self.screen.focused, Input)
        page = getattr(self.screen, "page", "")
        shown = [key for place in self.places for key in of(place) if key.text and key.page in ("", page)]
        if typing:  # the field takes all other keys
            shown = [key for key in shown if key.always]
        here = sorted((key for key in shown if key.where != "everywhere"), key=lambda key: not key.page)
        rest = Text("  ").join([self._part(key) for key in shown if key.where == "everywhere"])
        back = " esc leaves the field " if typing else ""
        line = Text(back or " ", no_wrap=True)
        for key in here:  # keys of the visible page come first
            part = self._part(key)
            if line.cell_len + part.cell_len + 2 + rest.cell_len + 1 > self.size.width:
                break
            line.append_text(part).append("  ")
        if not typing and line.cell_len + rest.cell_len + len(SCREENS_SHOWN) + 2 < self.size.width:
            rest = Text(SCREENS_SHOWN).append_text(rest)
        line.append(" " * max(0, self.size.width - line.cell_len - rest.cell_len - 1)).append_text(rest)
        return line

    def _part(self, key: Key) -> Text:
        off = key.changes and self.read_only
        target = "app" if key.where == "everywhere" else "screen"
        part = Text.assemble(
            (self.symbols.text(key.shown), "dim" if off else "bold"), (f" {key.text}", "dim" if off else "")
        )
        part.apply_meta({"@click": f"{target}.{key.action}"})
        return part
