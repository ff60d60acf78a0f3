"""A table of settings with a column for each run. The columns scroll, and long values are cut in their middle."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.cells import cell_len, set_cell_size
from textual.message import Message

from armada.tui.widgets import frame
from armada.tui.widgets.list_table import ListTable
from armada.tui.widgets.table import Column
from armada.units import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from armada.tui.symbols import Symbols

NAME = Column("DIFFERS IN", 22, grow=1, most=50)
RUN_WIDTH = 8


def cut_middle(text: str, width: int, mark: str) -> str:
    """Cut a text to a width in cells, so that its beginning and its end can be read."""
    if cell_len(text) <= width:
        return text
    if width <= 3:
        return set_cell_size(text, max(0, width))
    head = (width - 1) // 2
    tail = set_cell_size(text[::-1], width - 1 - head)[::-1]
    return f"{set_cell_size(text, head)}{mark}{tail}"


class DifferenceTable(ListTable):
    """Keeps the column of names in sight, and scrolls to the column of the chosen run.

    Args:
        symbols: The symbols that the terminal can show.
        id: As for every widget.
    """

    class Fitted(Message):
        """Its size changed, and with it perhaps which runs are in sight."""

    def __init__(self, symbols: Symbols, *, id: str) -> None:  # noqa: A002
        super().__init__((NAME,), symbols, id=id, classes=frame.FRAME)
        self._chosen = 0
        self._letters: tuple[str, ...] = ()
        frame.title(self, "Settings that differ")

    def show_runs(self, letters: Sequence[str], chosen: int) -> None:
        """Give each run a column, and bring the chosen one into sight."""
        if (tuple(letters), chosen) == (self._letters, self._chosen):
            return
        self._letters, self._chosen = tuple(letters), chosen
        titles = (f"{self.symbols.cursor}{each}" if place == chosen else each for place, each in enumerate(letters))
        self.set_columns((NAME, *(Column(title, RUN_WIDTH, grow=1) for title in titles)))
        self._say_hidden()

    def on_resize(self) -> None:
        """Say how many runs are out of sight at the new size."""
        self._say_hidden()
        self.post_message(self.Fitted())

    def _say_hidden(self) -> None:
        frame.facts(self, self.symbols.text(self.hidden))

    @property
    def hidden(self) -> str:
        """How many runs are out of sight, and where; empty if none is."""
        shown = [index for index, _ in self._fit(self._room) if index]
        before, after = (shown[0] - 1, len(self._letters) - shown[-1]) if shown else (0, 0)
        words = [f"← {counted(before, 'more run')}"] if before else []
        words += [f"{counted(after, 'more run')} →"] if after else []
        return " · ".join(words)

    def _columns_for(self, width: int) -> list[int]:
        """Return the column of names, and those of the runs from the chosen one on, or of the last ones."""
        runs = len(self._letters)
        count = max(1, min(runs, (width - 2 - NAME.width - 1) // (RUN_WIDTH + 1)))
        first = max(0, min(self._chosen, runs - count))
        return [0, *range(first + 1, min(runs, first + count) + 1)]

    def _cut(self, text: str, width: int) -> str:
        return cut_middle(text, width, self.symbols.cut)
