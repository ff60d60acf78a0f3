"""Ask before an action that is hard to undo, and list what it changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text
from textual.binding import Binding

from armada.foundation.sanitize import sanitize_line
from armada.tui.screens.list_window import SHOWN, ListWindow
from armada.tui.widgets import frame

if TYPE_CHECKING:
    from collections.abc import Sequence

    from armada.tui.symbols import Symbols


class Question(ListWindow[bool]):
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
        Binding("y", "answer(True)", "yes: do it"),
        Binding("n,escape,q,enter", "answer(False)", "no: change nothing"),
    ]
    ANSWERS = frozenset(("y", "n", "q", "enter"))
    """Keys that the screen below has, too; see `answer_keys.py`. A second esc leaves that as well, as everywhere."""
    WIDEST = 90
    DEFAULT_CSS = """
    Question Vertical { max-width: 90; }
    """

    def __init__(
        self, title: str, lines: Sequence[str], note: str, verb: str, symbols: Symbols, *, danger: bool = False
    ) -> None:
        text = symbols.text
        listed = Text("\n").join(Text(text(sanitize_line(line, 300))) for line in lines[:SHOWN])
        if len(lines) > SHOWN:
            listed.append(f"\nand {len(lines) - SHOWN} more")
        super().__init__(
            f"{symbols.attention} {text(sanitize_line(title, 200))}",
            listed,
            text(note),
            frame.keys(("y", text(verb)), ("n, esc", "cancel")),
            kind="danger" if danger else "asks",
        )

    def action_answer(self, yes: bool) -> None:
        self.dismiss(yes)
