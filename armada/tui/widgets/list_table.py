"""A table with fixed rows, for lists that are short or read once."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, NamedTuple, TypeAlias, cast

from armada.tui.bindings import bindings
from armada.tui.widgets.finding import Finding, next_match
from armada.tui.widgets.table import Cells, Entry, Table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from textual.binding import BindingType


Line: TypeAlias = "Cells | Callable[[], Cells]"
"""A line under a row; one that is expensive is made when it comes in sight."""


class Item(NamedTuple):
    """A row, and the lines under it. Cells that are expensive are made when they come in sight, as lines are."""

    key: str
    cells: Line
    more: tuple[Line, ...] = ()


class ListTable(Table, Finding):
    """Shows items as given, after converting their text to what the terminal can show."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("find")

    def forget(self) -> None:
        """Be as a new one: no lines, no cursor, no word that was looked for."""
        self.word = ""
        super().forget()

    def show_items(self, items: Iterable[Item]) -> None:
        entries: list[Entry] = []
        for item in items:
            entries.append(Entry(item.key, item.cells))
            entries += [Entry(f"{item.key} {number}", cells, "more") for number, cells in enumerate(item.more)]
        self.show(entries)

    def cells(self, entry: Entry) -> Cells:
        source = cast("Line", entry.source)
        made = source() if callable(source) else source
        if self.symbols.utf8:
            return made
        text = self.symbols.text
        return tuple(tuple((text(words), style) for words, style in spans) for spans in made)

    def find_from_here(self, word: str, by: int) -> bool:
        texts: dict[str, str] = {}
        row = ""
        for entry in self.entries:
            row = entry.key if entry.kind == "row" else row
            words = " ".join(text for spans in self.cells(entry) for text, _ in spans)
            texts[row] = f"{texts.get(row, '')} {words}"
        keys = list(texts)
        at = next_match(list(texts.values()), word, keys.index(self.cursor) if self.cursor in texts else 0, by)
        if at is not None:
            self.place(keys[at])
        return at is not None
