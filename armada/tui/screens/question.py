"""Ask before an action that is hard to undo, and list what it changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.text import Text
from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.widgets import Static

from armada.foundation.sanitize import sanitize_line
from armada.tui.screens.dialog import Dialog
from armada.tui.widgets import frame

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.app import ComposeResult

    from armada.tui.symbols import Symbols

SHOWN = 500


class Question(Dialog[bool]):
    """`y` confirms; every other key changes nothing.

    Args:
        title: The question.
        lines: What it changes, one per line; may be any text.
        note: What will happen.
        verb: What `y` does.
        symbols: The symbols that the terminal can show.
        danger: What it changes cannot be brought back: the frame is red and heavy.
    """

    BINDINGS = [  # noqa: RUF012  # Textual declares it so
        Binding("y", "answer(True)", "yes"),
        Binding("n,escape,q,enter", "answer(False)", "no"),
    ]
    ANSWERS = frozenset(("y", "n", "q", "enter"))
    """Keys that the screen below has, too; see `answer_keys.py`. A second esc leaves that as well, as everywhere."""
    DEFAULT_CSS = """
    Question { align: center middle; }
    Question Vertical { width: 90%; max-width: 90; height: auto; max-height: 95%; }
    Question VerticalScroll {
        width: 100%; max-width: 100%; height: auto; max-height: 50vh; border: none; padding: 0; background: $panel;
    }
    Question .part { margin: 1 0 0 0; }
    """

    def __init__(
        self, title: str, lines: Sequence[str], note: str, verb: str, symbols: Symbols, *, danger: bool = False
    ) -> None:
        super().__init__()
        text = symbols.text
        self._title = f"{symbols.attention} {text(sanitize_line(title, 200))}"
        self._kind = "danger" if danger else "asks"
        self._lines = Text("\n").join(Text(text(sanitize_line(line, 300))) for line in lines[:SHOWN])
        if len(lines) > SHOWN:
            self._lines.append(f"\nand {len(lines) - SHOWN} more")
        self._note = Text(text(note), style="dim")
        self._keys = frame.keys(("y", text(verb)), ("n, esc", "cancel"))

    def compose(self) -> ComposeResult:
        box = frame.dialog(self._title, kind=self._kind)
        frame.facts(box, self._keys)
        with box:
            if cell_len(self._title) > min(90, self.app.size.width * 9 // 10) - 6:  # longer than the edge
                yield Static(Text(self._title, style="bold"))
            with VerticalScroll():
                yield Static(self._lines)
            yield Static(self._note, classes="part")

    def action_answer(self, yes: bool) -> None:
        self.dismiss(yes)
