"""Choose one entry of a list, which narrows down as you type."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, NamedTuple

from rich.cells import cell_len
from rich.text import Text
from textual.binding import Binding
from textual.widgets import Input, Static

from armada.foundation.sanitize import sanitize_line
from armada.tui.filtering import fuzzy
from armada.tui.screens.dialog import Dialog
from armada.tui.widgets import frame
from armada.tui.widgets.field import Field
from armada.tui.widgets.list_table import Item, ListTable
from armada.tui.widgets.table import Column, Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.app import ComposeResult

    from armada.tui.symbols import Symbols

MOST = 500
HIGHEST, FEWEST = 30, 3
"""Lines of the window at most, and of its list at least: it is as high as its list."""
AROUND = 5
"""Lines around the list: the frame, the field, and one that parts them, above and below."""


class Choice(NamedTuple):
    """An entry: the value to return, its label and its description. Label and description may be any text."""

    key: str
    name: str
    more: str = ""


def _rank(words: Sequence[str], choice: Choice) -> int | None:
    """Rank how well a choice matches the typed words, 0 for the best; None if it does not match. Enter selects the first."""
    name, typed = choice.name.casefold(), " ".join(words)
    file = name.rpartition("/")[2]
    exactly = (name, name.rpartition(".")[0], file, file.rpartition(".")[0])
    if typed in exactly:
        return exactly.index(typed) // 2
    if file.startswith(typed) or name.startswith(typed):
        return 2 if name.startswith(typed) else 3
    if all(word in name for word in words):
        return 4
    if all(fuzzy(word, name) for word in words):
        return 5
    return 6 if all(fuzzy(word, f"{name} {choice.more}".casefold()) for word in words) else None


class Chooser(Dialog[str | None]):
    """Enter selects the line under the cursor, Escape cancels.

    Args:
        title: What to choose.
        choices: The most likely first.
        symbols: The symbols that the terminal can show.
        note: A sentence above the list, if there is something to say.
    """

    BINDINGS = [  # noqa: RUF012  # Textual declares it so
        Binding("escape", "leave", "leave", priority=True),
        Binding("up", "step(-1)", "up", priority=True),
        Binding("down", "step(1)", "down", priority=True),
        Binding("pageup", "step(-10)", "page up", priority=True),
        Binding("pagedown", "step(10)", "page down", priority=True),
    ]
    KEYS: ClassVar[tuple[tuple[str, str], ...]] = (("enter", "takes it"), ("esc", "cancels"))
    DEFAULT_CSS = """
    Chooser { align: center middle; }
    Chooser Vertical { width: 90%; max-width: 110; height: 80%; }
    Chooser Input { height: 1; border: none; padding: 0 1; background: $boost; }
    Chooser Input:focus { border: none; background: $accent 20%; }
    Chooser .note { height: auto; padding: 0 1; color: $text-muted; }
    Chooser ListTable { height: 1fr; background: $panel; }
    """

    def __init__(self, title: str, choices: Sequence[Choice], symbols: Symbols, note: str = "") -> None:
        super().__init__()
        self._title = title
        self._choices = choices
        self._symbols = symbols
        self.note = Static(classes="note")
        self._say(note)

    def compose(self) -> ComposeResult:
        longest = max((cell_len(each.name) for each in self._choices), default=1)
        name = Column("", min(20, longest), grow=2 if longest > 20 else 0, most=max(1, longest))
        box = frame.dialog(self._symbols.text(sanitize_line(self._title, 200)), *self.KEYS)
        box.styles.max_height = min(HIGHEST, AROUND + max(FEWEST, len(self._choices)))
        with box:
            yield Field(placeholder="type to narrow it down")
            yield self.note
            self.table = ListTable((name, Column("", 20, grow=3, rank=1)), self._symbols)
            yield self.table

    def _say(self, note: str) -> None:
        """Show a sentence above the list, or none."""
        self.note.update(Text(self._symbols.text(note)))
        self.note.display = bool(note)

    def on_mount(self) -> None:
        self._show("")
        self.set_focus(self.query_one(Input))

    def _show(self, typed: str) -> None:
        words = typed.casefold().split()
        ranked = [(rank, choice) for choice in self._choices if (rank := _rank(words, choice)) is not None]
        ranked.sort(key=lambda each: each[0])
        self.table.empty = "nothing in this list matches" if self._choices else "there is nothing to choose"
        self.table.show_items(
            Item(key, (((sanitize_line(name, 120), "strong"),), ((sanitize_line(more, 200), "dim"),)))
            for _, (key, name, more) in ranked[:MOST]
        )
        self.table.action_edge(-1)

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        self._show(event.value)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self._take()

    def on_table_chosen(self, event: Table.Chosen) -> None:
        event.stop()
        self._take()

    def _take(self) -> None:
        if self.table.cursor is not None:
            self.dismiss(self.table.cursor)

    def action_step(self, by: int) -> None:
        self.table.action_move(by)

    def action_leave(self) -> None:
        self.dismiss(None)
