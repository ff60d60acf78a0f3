"""A row for each compared run, in the colour of its curve: last, best and at the crosshair.

A column is as wide as what stands in it, so that nothing is cut, and one without any value yields its room.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from armada.tui.beginnings import first_fitting, width_of
from armada.tui.bindings import bindings
from armada.tui.theme import CURVES
from armada.tui.widgets.list_table import Item, ListTable
from armada.tui.widgets.table import STYLES, Cells, Column, Entry

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rich.style import Style
    from textual.binding import BindingType

    from armada.tui.symbols import Symbols

COLOURS = tuple(f"curve-{place}" for place in range(1, CURVES + 1))
COLUMNS = (
    Column("", 3),
    Column("RUN", 10, grow=3, most=60),
    Column("ID", 6, rank=3),
    Column("LAST", 7, right=True, rank=1),
    Column("BEST", 10, right=True, rank=2),
    Column("AT STEP", 7, right=True, rank=5),
    Column("AT CURSOR", 9, right=True, rank=4),
    Column("COST", 6, right=True, rank=6),
    Column("STATE", 9, grow=1, rank=7),
)
NAME = 1
YIELD = frozenset(place for place, column in enumerate(COLUMNS) if column.title in ("AT STEP", "AT CURSOR", "COST"))
"""The columns that are left out where no run has a value for them; the others say that there is none."""


class RunFigures(ListTable, inherit_bindings=False):
    """The run under the cursor is lit in the plot above. Its runs are few: `/` is that of the screen, for the metrics."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("lists")

    COMPONENT_CLASSES: ClassVar[set[str]] = {f"table--{name}" for name in (*STYLES, *COLOURS)}
    DEFAULT_CSS = "\n".join(f"RunFigures > .table--{name} {{ color: ${name}; text-style: bold; }}" for name in COLOURS)

    def __init__(self, symbols: Symbols) -> None:
        super().__init__(COLUMNS, symbols)
        self.forms: Mapping[str, tuple[str, ...]] = {}
        """Shorter forms of the names of runs, for where they do not fit: cells of a sweep begin alike."""

    def cells(self, entry: Entry) -> Cells:
        made = super().cells(entry)
        name, room = made[NAME], dict(self._fit(self._room)).get(NAME, 0)
        if width_of(name) <= room or entry.key not in self.forms:
            return made
        short = first_fitting(map(self.symbols.text, self.forms[entry.key]), room)
        return (*made[:NAME], ((short, name[0][1]),), *made[NAME + 1 :])

    def show_items(self, items: Iterable[Item]) -> None:
        shown = list(items)
        super().show_items(shown)
        lines = [self.cells(entry) for entry in self.entries]
        widest = [
            max((width_of(line[place]) for line in lines), default=0) if place != NAME else column.width
            for place, column in enumerate(COLUMNS)
        ]
        columns = [column._replace(width=max(column.width, wide)) for column, wide in zip(COLUMNS, widest, strict=True)]
        blank = ("", self.symbols.none)
        unused = frozenset(place for place in YIELD if all(text in blank for line in lines for text, _ in line[place]))
        if (tuple(columns), unused) != (self.columns, self._unused):
            self.set_columns(columns, unused)

    def style_of(self, name: str) -> Style:
        found = super().style_of(name) if name in STYLES else self._styles.get(name)
        if found is None:
            found = self._styles[name] = super().style_of("plain") + self.get_component_rich_style(f"table--{name}")
        return found
