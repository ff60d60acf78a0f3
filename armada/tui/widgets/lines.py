"""The top line, with states and costs, and the key line at the bottom."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual.widget import Widget
from textual.widgets import Input

from armada.costs.amounts import total
from armada.tui.bindings import Key, of, on_page
from armada.tui.snapshot import EMPTY, Snapshot
from armada.units import span

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.style import Style

    from armada.tui.symbols import Symbols


STEADY = 14
"""Cells that the daemon's age may take: the line must not change its form when 9 s become 10 s."""
NO_DAEMON = "no daemon"
SCREENS_SHOWN = ("1-8", " screens  ")
TABS = ("runs", "run", "hosts", "sync", "launch", "compare")
"""The screens, by the keys 1 to 6."""


class TopLine(Widget):
    """The screens by their numbers, counts, money, the daemon's age."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {f"top--{name}" for name in ("name", "active", "good", "warn", "dim")}
    DEFAULT_CSS = """
    TopLine { height: 1; background: $background; color: $foreground; }
    TopLine > .top--name { color: $background; background: $accent; text-style: bold; }
    TopLine > .top--active { color: $text-accent; text-style: bold underline; }
    TopLine > .top--good { color: $text-success; }
    TopLine > .top--warn { color: $text-warning; text-style: bold; }
    TopLine > .top--dim { color: $text-muted; }
    """

    def __init__(self, symbols: Symbols, place: str) -> None:
        super().__init__()
        self.auto_links = False  # Textual would underline everything that can be clicked
        self.symbols = symbols
        self.place = place
        self.snapshot: Snapshot = EMPTY
        self._shown = ""
        self._laid_out: tuple[Snapshot, tuple[object, ...]] = (EMPTY, ())

    def take(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.tick()

    def tick(self) -> None:
        """Draw again if the text changed, as the age of the daemon does."""
        # To lay out the whole line each second is a fifth of what an idle dashboard costs.
        of = (self.size, getattr(self.app, "unread", 0), self._daemon(time.time(), "", "").plain)
        if self.snapshot is self._laid_out[0] and of == self._laid_out[1]:
            return
        self._laid_out = (self.snapshot, of)
        if (words := self._words().plain) != self._shown:
            self._shown = words
            self.refresh()

    def render(self) -> Text:
        return self._words()

    def _words(self) -> Text:
        snapshot, symbols, now = self.snapshot, self.symbols, time.time()
        good, warn, dim, active, name = (
            self.get_component_rich_style(f"top--{each}") for each in ("good", "warn", "dim", "active", "name")
        )
        badge = Text.assemble((" armada ", name), " ")
        if snapshot.trouble is not None:
            return Text.assemble(badge, " ", (symbols.text(snapshot.trouble), warn))
        daemon = self._daemon(now, good, warn)
        held = daemon.cell_len if daemon.plain == NO_DAEMON else max(daemon.cell_len, STEADY)
        tabs, parts, is_told = self._fitting(self.size.width - badge.cell_len - 3, held, good, warn, dim, active)
        daemon = daemon if is_told else Text("")
        line = badge.append_text(tabs)
        facts = Text("").join([*parts, Text("  " if daemon else ""), daemon])
        line.append(" " * max(1, self.size.width - line.cell_len - facts.cell_len - 1)).append_text(facts)
        line.no_wrap = True
        return line

    def _fitting(
        self, width: int, held: int, good: Style, warn: Style, dim: Style, active: Style
    ) -> tuple[Text, list[Text], bool]:
        """Return the screens and the facts in the longest form that fits, and whether the daemon's age fits, too.

        The names of the screens stay longer than the words of the facts, whose signs say the same; their numbers stay longer
        than the last fact. What idle hosts cost stays longer than names, and than the age of a daemon that is well. How
        many runs need the user stays longest.

        Args:
            width: Cells for all of it.
            held: Cells for the daemon's age.
            good: A style, as the others.
            warn: For what needs the user.
            dim: For what is less important.
            active: For the visible screen.
        """
        room, money, daemon = width - held, self.snapshot.money, self.snapshot.daemon
        is_idle = money is not None and any(money.idle_per_hour.by_currency.values())

        def facts(form: str) -> list[Text]:
            return self._facts(good, warn, dim, form)

        def fits(tabs: Text, parts: list[Text], room: int = room) -> bool:
            return tabs.cell_len + sum(part.cell_len for part in parts) <= room

        tabs = self._tabs(active, dim, names=True)
        forms = ("week words need idle", "words need idle", "need idle", *(("idle",) if is_idle else ()))
        for form in forms:
            if fits(tabs, parts := facts(form)):
                return tabs, parts, True
        parts = facts(forms[-1])
        if parts and "unread" in parts[-1].plain and fits(tabs, parts[:-1]):
            return tabs, parts[:-1], True
        tabs = self._tabs(active, dim, names=False)
        for form in ("need idle", "idle") if is_idle else ():
            if fits(tabs, parts := facts(form)):
                return tabs, parts, True
        is_well = daemon is not None and daemon.condition == "fresh"
        if is_idle and is_well and fits(tabs, parts := facts("idle"), width):
            return tabs, parts, False
        counts, alone = self.snapshot.counts, self._tabs(active, dim, names=False, others=False)
        for shown, form in ((tabs, "need"), (tabs, ""), (alone, "")):
            parts = facts(form)
            while len(parts) > 1 + bool(counts.waiting) + bool(counts.troubled) and not fits(shown, parts):
                parts.pop()
            if fits(shown, parts):
                return shown, parts, True
        while len(parts) > 1 and not fits(alone, parts):
            parts.pop(-2 if counts.troubled else -1)  # what needs the user goes last
        return alone, parts, fits(alone, parts) or not is_well

    def _tabs(self, active: Style, dim: Style, *, names: bool, others: bool = True) -> Text:
        """Return the screens with their keys; without `names` this one's name alone, without `others` this one alone."""
        tabs = Text("")
        for number, place in enumerate(TABS, 1):
            here = place == self.place
            if not (others or here):
                continue
            words = f"{number} {place.capitalize()}" if here or names else f"{number}"
            part = Text.assemble((words, active if here else dim), "  " if names else " ")
            part.apply_meta({"@click": f"app.go('{place}')"})
            tabs.append_text(part)
        return tabs

    def _facts(self, good: Style, warn: Style, dim: Style, form: str) -> list[Text]:
        """Return the counts and the costs, the most important first.

        Args:
            good: A style, as the others.
            warn: For what needs the user.
            dim: For what is less important.
            form: What is said besides them, separated by blanks: the cost of the `week`, what hosts cost that are `idle`,
                `words` after the signs, and the words of what `need`s the user.
        """
        week, words, need_words, idle = (each in form.split() for each in ("week", "words", "need", "idle"))
        snapshot, symbols = self.snapshot, self.symbols
        if not snapshot.taken_at and snapshot.first_of is None:
            return []  # nothing was counted yet
        running, queued, need = snapshot.counts.running, snapshot.counts.waiting, snapshot.counts.troubled
        states = symbols.states
        parts = [Text(f"{states['running']} {running}{' running' if words else ''}", good if running else dim)]
        if queued:
            parts.append(Text(f"  {states['queued']} {queued}{' queued' if words else ''}", dim))
        if need:
            said = f" need{'s' if need == 1 else ''} you" if need_words else ""
            parts.append(Text(f"  {symbols.attention} {need}{said}", warn))
        if (money := snapshot.money) is not None:
            burning = total([money.per_hour, money.idle_per_hour]).text() or "unknown"
            wasted = idle and any(money.idle_per_hour.by_currency.values())
            more = f" (idle {money.idle_per_hour.text()})" if wasted else ""
            parts.append(Text.assemble("  ", ("burning " if words else "", dim), f"{burning}/h", (more, dim)))
        if unread := getattr(self.app, "unread", 0):
            parts.append(Text(f"  {unread} unread{' (8)' if words else ''}", "bold"))
        if money is not None and money.week.is_known and week:
            parts.append(Text(f"  {money.week.text(rough=True)} for runs this week", dim))
        return [Text(symbols.text(part.plain), part.style, spans=part.spans) for part in parts]

    def _daemon(self, now: float, good: Style | str, warn: Style | str) -> Text:
        daemon = self.snapshot.daemon
        if daemon is None:
            return Text("")
        if daemon.tick_at is None:
            return Text(NO_DAEMON, warn)
        ticked = span(now - daemon.tick_at)
        if daemon.condition == "fresh":
            return Text(f"daemon {self.symbols.states['succeeded']} {ticked}", good)
        words = f"daemon silent for {ticked}" if daemon.condition == "stale" else f"daemon ended {ticked} ago"
        return Text(words, warn)


class KeyLine(Widget):
    """The keys that work here; each can be clicked."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"keys--key", "keys--word", "keys--off"}
    DEFAULT_CSS = """
    KeyLine { height: 1; background: $background; color: $text-muted; dock: bottom; }
    KeyLine > .keys--key { color: $text-accent; text-style: bold; }
    KeyLine > .keys--word { color: $text-muted; }
    KeyLine > .keys--off { color: $text-muted; text-style: dim; }
    """

    def __init__(self, symbols: Symbols, places: Sequence[str], *, read_only: bool) -> None:
        super().__init__()
        self.auto_links = False
        self.symbols = symbols
        self.places = tuple(places)
        self.read_only = read_only

    def render(self) -> Text:
        """Show as many keys of this screen as fit; help, palette and quit are always shown."""
        typing = isinstance(self.screen.focused, Input)
        page = getattr(self.screen, "page", "")
        shown = [key for place in self.places for key in of(place) if key.text and on_page(key, page)]
        shown = [key for key in shown if key.action != f"tab('{page}')"]  # it is there already
        if typing:  # the field takes all other keys
            shown = [key for key in shown if key.always]
        elif (offers := getattr(self.screen, "offers", None)) is not None:
            shown = [key for key in shown if key.where == "everywhere" or key.action in offers]
        here = sorted((key for key in shown if key.where != "everywhere"), key=lambda key: not key.page)
        rest = Text("  ").join([self._part(key) for key in shown if key.where == "everywhere"])
        sign, word = self._styles()
        line = Text(" ", no_wrap=True)
        if typing:
            line.append("esc", sign).append(" leaves the field  ", word)
        for key in here:  # keys of the visible page come first
            part = self._part(key)
            if line.cell_len + part.cell_len + 2 + rest.cell_len + 1 > self.size.width:
                break
            line.append_text(part).append("  ")
        if not typing and line.cell_len + rest.cell_len + sum(map(len, SCREENS_SHOWN)) + 2 < self.size.width:
            screens = Text.assemble((SCREENS_SHOWN[0], sign), (SCREENS_SHOWN[1], word))
            rest = screens.append_text(rest)
        line.append(" " * max(0, self.size.width - line.cell_len - rest.cell_len - 1)).append_text(rest)
        return line

    def _part(self, key: Key) -> Text:
        off = key.changes and self.read_only
        target = "app" if key.where == "everywhere" else "screen"
        sign, word = [self.get_component_rich_style("keys--off")] * 2 if off else self._styles()
        part = Text.assemble((self.symbols.text(key.shown), sign), (f" {key.text}", word))
        part.apply_meta({"@click": f"{target}.{key.action}"})
        return part

    def _styles(self) -> tuple[Style, Style]:
        return self.get_component_rich_style("keys--key"), self.get_component_rich_style("keys--word")
