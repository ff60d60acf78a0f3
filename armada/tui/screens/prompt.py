"""Ask for one line of text, such as a folder or a position in a log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text
from textual.binding import Binding
from textual.widgets import Input, Static

from armada.foundation.sanitize import sanitize_line
from armada.tui.screens.dialog import Dialog
from armada.tui.widgets import frame
from armada.tui.widgets.field import Field

if TYPE_CHECKING:
    from textual.app import ComposeResult

    from armada.tui.symbols import Symbols


MOST = 10_000
"""As long as a note may be: what is entered goes into a command, and those have limits."""


class Prompt(Dialog[str | None]):
    """Enter accepts the text, Escape cancels.

    Args:
        title: What to enter.
        note: What will be done with it.
        value: The initial text.
        symbols: The symbols that the terminal can show.
    """

    BINDINGS = [Binding("escape", "leave", "leave", priority=True)]  # noqa: RUF012  # Textual declares it so
    DEFAULT_CSS = """
    Prompt { align: center middle; }
    Prompt Vertical { width: 90%; max-width: 90; height: auto; }
    Prompt Input { height: 1; border: none; padding: 0 1; margin: 0 0 1 0; background: $boost; }
    Prompt Input:focus { border: none; background: $accent 20%; }
    """

    def __init__(self, title: str, note: str, value: str, symbols: Symbols) -> None:
        super().__init__()
        self._title = symbols.text(sanitize_line(title, 200))
        self._note = Text(symbols.text(note), style="dim")
        self._value = value

    def compose(self) -> ComposeResult:
        with frame.dialog(self._title, ("enter", "continues"), ("esc", "cancels")):
            yield Field(self._value)
            yield Static(self._note)

    def on_mount(self) -> None:
        self.set_focus(self.query_one(Input))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        if (length := len(event.value)) > MOST:
            self.notify(f"the text has {length:,} characters; the most is {MOST:,}", severity="warning", markup=False)
            return
        self.dismiss(event.value.strip() or None)

    def action_leave(self) -> None:
        self.dismiss(None)
