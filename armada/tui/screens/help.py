"""Help (`?`): the table of keys, those of the current screen first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text
from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from armada.tui.bindings import SCREENS, of
from armada.tui.widgets import frame

if TYPE_CHECKING:
    from textual.app import ComposeResult

    from armada.tui.symbols import Symbols


class HelpScreen(ModalScreen[None]):
    """Generated from `armada.tui.bindings`, like everything that shows keys."""

    BINDINGS = [Binding("escape,q,question_mark,enter", "close", "close")]  # noqa: RUF012  # Textual declares it so
    DEFAULT_CSS = """
    HelpScreen { align: center middle; }
    HelpScreen VerticalScroll { width: 90%; max-width: 100; height: 90%; border: round $accent; padding: 0 1; background: $panel; }
    """

    def __init__(self, place: str, symbols: Symbols, *, read_only: bool) -> None:
        super().__init__()
        self._place, self._symbols, self._read_only = place, symbols, read_only

    def compose(self) -> ComposeResult:
        accent = self.app.theme_variables["text-accent"]
        with VerticalScroll() as page:
            frame.title(page, "Keys")
            yield Static(words(self._place, self._symbols, read_only=self._read_only, accent=accent))

    def action_close(self) -> None:
        self.dismiss(None)


def words(place: str, symbols: Symbols, *, read_only: bool, accent: str = "") -> Text:
    """Return all keys: first those of one place, then those that work everywhere, then the others."""
    text = Text()
    order = [place, "everywhere", "lists", *(each for each in SCREENS if each not in (place, "everywhere", "lists"))]
    for each in order:
        text.append(f"{SCREENS[each]}\n", style="bold")
        for key in of(each):
            off = key.changes and read_only
            text.append(f"  {symbols.text(key.shown):<8} ", style="dim" if off else f"bold {accent}")
            said = f"{symbols.text(key.help)}{'  (off: --read-only)' if off else ''}\n"
            text.append(said, style="dim" if off else "")
        text.append("\n")
    text.append("Signs: ", style="bold")
    signs = [f"{sign} {state}" for state, sign in symbols.states.items()]
    signs += [f"{symbols.attention} needs you", f"{symbols.unreachable} unreachable", f"{symbols.marked} marked"]
    text.append(" · ".join(signs) if symbols.utf8 else "  ".join(signs))
    return text
