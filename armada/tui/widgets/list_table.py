"""A table with fixed rows, for lists that are short or read once."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, cast

from armada.tui.widgets.table import Cells, Entry, Table

if TYPE_CHECKING:
    from collections.abc import Iterable


class Item(NamedTuple):
    """A row, and the lines under it."""

    key: str
    cells: Cells
    more: tuple[Cells, ...] = ()


class ListTable(Table):
    """Shows items as given, after converting their text to what the terminal can show."""

    def show_items(self, items: Iterable[Item]) -> None:
        entries: list[Entry] = []
        for item in items:
            entries.append(Entry(item.key, item.cells))
            entries += [Entry(f"{item.key} {number}", cells, "more") for number, cells in enumerate(item.more)]
        self.show(entries)

    def cells(self, entry: Entry) -> Cells:
        made = cast("Cells", entry.source)
        text = self.symbols.text
        return tuple(tuple((text(words), style) for words, style in spans) for spans in made)
