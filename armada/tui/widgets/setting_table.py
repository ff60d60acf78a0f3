"""The settings of an experiment as a tree: sections unfold, changed values are marked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from armada.foundation.sanitize import sanitize_line
from armada.foundation.setting_keys import sections_above
from armada.tui.form import UNSET, Form, Row, from_where, tree
from armada.tui.widgets.finding import next_match
from armada.tui.widgets.list_table import Item, ListTable
from armada.tui.widgets.table import Column

if TYPE_CHECKING:
    from collections.abc import Sequence

    from armada.tui.form import Fault, Setting
    from armada.tui.symbols import Symbols
    from armada.tui.widgets.table import Cells, Span

SHOWN = 300
"""Characters of a value that a row shows."""
REASONS = 3
"""Lines under a row."""
FILE = "file"
"""The row of what is wrong with the file as a whole; no setting has this key."""


class SettingTable(ListTable):
    """Shows a form. Sections with something written in them are open at first."""

    def __init__(self, symbols: Symbols, *, id: str) -> None:  # noqa: A002
        columns = (
            Column("SETTING", 24, grow=2, most=44),
            Column("VALUE", 14, grow=4),
            Column("FROM", 9, rank=1, most=24),
        )
        super().__init__(columns, symbols, id=id)
        self.form: Form | None = None
        self.opened: set[str] = set()
        self._changes: tuple[str, ...] = ()
        self._path = ""

    def show_form(self, form: Form | None, changes: Sequence[str]) -> None:
        """Show a form, or nothing; what was open stays open while it is the same file."""
        if form is not None and form.path != self._path:
            self._path = form.path
            self.opened = {row.setting.key for row in tree(form, set(), changes) if row.below and row.written}
            self.opened |= {above for fault in form.faults for above in sections_above(fault.key)}
        self.form, self._changes = form, tuple(changes)
        rows = tree(form, self.opened, changes) if form is not None else []
        items = [Item(row.setting.key, self._cells(row), self._reasons(row.faults)) for row in rows]
        if form is not None and (faults := [fault for fault in form.faults if not fault.key]):
            items.insert(
                0, Item(FILE, ((("the file", "bad"),), (("", "plain"),), (("", "plain"),)), self._reasons(faults))
            )
        self.show_items(items)

    @property
    def faults(self) -> list[Fault]:
        """What is wrong with the setting under the cursor, or with one in it."""
        if self.form is None or self.cursor is None:
            return []
        return (
            [each for each in self.form.faults if not each.key]
            if self.cursor == FILE
            else self.form.faults_at(self.cursor)
        )

    def place_at_fault(self) -> None:
        """Put the cursor on the first setting that is wrong."""
        if self.form is not None and self.form.faults:
            self.place(self.form.faults[0].key or FILE)

    def _reasons(self, faults: Sequence[Fault]) -> tuple[Cells, ...]:
        """Return a line under the row for each thing that is wrong; the sentence stands whole below the table."""
        words = [f"{self.symbols.states['failed']} {sanitize_line(fault.words, SHOWN)}" for fault in faults[:REASONS]]
        return tuple((((each, "bad"),),) for each in words)

    @property
    def setting(self) -> Setting | None:
        """The setting under the cursor."""
        return self.form.setting(self.cursor) if self.form is not None else None

    def is_section(self, key: str) -> bool:
        """Return whether a setting has others in it."""
        return self.form is not None and any(each.key.startswith((f"{key}.", f"{key}[")) for each in self.form.settings)

    def fold(self, key: str, *, is_open: bool) -> None:
        """Open or close a section."""
        self.opened = self.opened | {key} if is_open else self.opened - {key}
        self.show_form(self.form, self._changes)

    def above(self, key: str) -> str | None:
        """Return the section that a setting is in; None at the top."""
        while key := key[: max(key.rfind("."), key.rfind("["), 0)]:
            if self.shows(key):
                return key
        return None

    def find_from_here(self, word: str, by: int) -> bool:
        """Find a word in all settings, also in sections that are closed."""
        settings = self.form.settings if self.form is not None else ()
        keys = [setting.key for setting in settings]
        texts = [f"{setting.key} {setting.value or ''} {setting.meaning}" for setting in settings]
        at = next_match(texts, word, keys.index(self.cursor) if self.cursor in keys else 0, by)
        if at is not None:
            key = keys[at]
            self.opened.update(sections_above(key))
            self.show_form(self.form, self._changes)
            self.place(key)
        return at is not None

    def _cells(self, row: Row) -> tuple[tuple[Span, ...], ...]:
        setting = row.setting
        sign = (self.symbols.opened if row.is_open else self.symbols.closed) if row.below else " "
        name: tuple[Span, ...] = (
            ("  " * row.depth, "plain"),
            (f"{sign} ", "faint"),
            (sanitize_line(setting.name, 80), "bad" if row.faults else _name_style(row)),
        )
        mark: tuple[Span, ...] = ((f"{self.symbols.marked} ", "accent"),) if row.is_changed else ()
        if row.below and setting.value in (None, "null"):
            words = f"{row.written} of {row.below} set" if row.written else "as by default"
            return name, (*mark, (words, "dim")), ((" ", "plain"),)
        is_unset = setting.value in (None, "null")
        value = UNSET if is_unset else sanitize_line(setting.value, SHOWN)
        is_default = setting.origin in ("default", "") and not row.is_changed
        style = "accent" if row.is_changed else "dim" if is_unset or is_default else "strong"
        path = self.form.path if self.form is not None else ""
        return name, (*mark, (value, "bad" if row.faults else style)), ((from_where(setting, path), "dim"),)


def _name_style(row: Row) -> str:
    return "accent" if row.is_changed else "plain" if row.below else "dim"
