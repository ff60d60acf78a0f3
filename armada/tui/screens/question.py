"""Ask before an action that is hard to undo, and list what it changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text
from textual.binding import Binding
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from armada.foundation.sanitize import sanitize_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.app import ComposeResult

    from armada.tui.symbols import Symbols

SHOWN = 500


class Question(ModalScreen[bool]):
    """`y` confirms; every other key changes nothing.

    Args:
        title: The question.
        lines: What it changes, one per line; may be any text.
        note: What will happen.
        verb: What `y` does.
        symbols: The symbols that the terminal can show.
    """

    BINDINGS = [  # noqa: RUF012  # Textual declares it so
        Binding("y", "answer(True)", "yes"),
        Binding("n,escape,q,enter", "answer(False)", "no"),
    ]
    DEFAULT_CSS = """
    Question { align: center middle; }
    Question Vertical {
        width: 90%; max-width: 90; height: auto; max-height: 95%; border: round $warning; padding: 0 1; background: $panel;
    }
    Question VerticalScroll {
        width: 100%; max-width: 100%; height: auto; max-height: 50vh; border: none; padding: 0; background: $panel;
    }
    """

    def __init__(self, title: str, lines: Sequence[str], note: str, verb: str, symbols: Symbols) -> None:
        super().__init__()
        text = symbols.text
        self._title = Text(text(sanitize_line(title, 200)) + "\n", style="bold")
        self._lines = Text("\n").join(Text(f"  {text(sanitize_line(line, 300))}") for line in lines[:SHOWN])
        if len(lines) > SHOWN:
            self._lines.append(f"\n  and {len(lines) - SHOWN} more")
        self._foot = Text.assemble((f"\n{text(note)}\n\n", "dim"), (f"y {text(verb)}     n, esc cancel", "bold"))

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static(self._title)
            with VerticalScroll():
                yield Static(self._lines)
            yield Static(self._foot)

    def action_answer(self, yes: bool) -> None:
        self.dismiss(yes)
