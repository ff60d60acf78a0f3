"""The window that chooses the columns of Runs: a list of all that there are, which narrows down as you type."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, cast

from rich.text import Text
from textual.widgets import Input, Static

from armada.filters.cells import MOST_COLUMNS
from armada.filters.keys import UnknownKey
from armada.foundation.sanitize import sanitize_line
from armada.tui.bindings import bindings, of
from armada.tui.column_choice import USUAL, ColumnChoice, Offer, split
from armada.tui.screens.dialog import Dialog
from armada.tui.widgets import frame
from armada.tui.widgets.field import Field
from armada.tui.widgets.list_table import Item, ListTable
from armada.tui.widgets.table import Column, Span, Table
from armada.units import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from textual import events
    from textual.app import ComposeResult

    from armada.filters.keys import Key
    from armada.tui.app import Dashboard

MOST = 1000
"""Columns that are listed at once."""
NAMED = 5
"""Columns without room that are named."""
LOOK_S = 0.2
KEYS = (("space", "takes"), ("< >", "move"), ("enter", "keeps"), ("esc", "cancels"))
TYPED = "type to find; a,b,c is exactly these, default the usual"


class NameField(Field):
    """Gives the keys of the window to it, in the order in which all came; no name of a column has one of them."""

    KEYS: ClassVar[dict[str, str]] = {
        name: key.action for key in of("columns") for name in key.keys.split(",") if name != "escape"
    }

    async def on_key(self, event: events.Key) -> None:
        """Obey a key of the window, else one of the field."""
        action = self.KEYS.get(event.key)
        if action is None:
            await super().on_key(event)
        else:
            event.stop()
            event.prevent_default()
            await self.app.run_action(action, self.screen)


class ColumnsWindow(Dialog[list[str] | None]):
    """Returns the words of the columns, none for the usual ones; None if nothing is to change.

    Args:
        board: Knows the settings and metrics that runs have.
        present: The words of the columns now.
        left_out: Returns for which of the columns the table has no room.
    """

    PLACE = "columns"
    BINDINGS = bindings("columns")
    DEFAULT_CSS = """
    ColumnsWindow { align: center middle; }
    ColumnsWindow Vertical { width: 90%; max-width: 100; height: 90%; max-height: 34; }
    ColumnsWindow Input { height: 1; border: none; padding: 0 1; background: $boost; }
    ColumnsWindow Input:focus { border: none; background: $accent 20%; }
    ColumnsWindow ListTable { height: 1fr; background: $panel; }
    ColumnsWindow #told { height: auto; max-height: 3; }
    """

    def __init__(
        self, board: Dashboard, present: Sequence[str], left_out: Callable[[Sequence[Key]], Sequence[Key]]
    ) -> None:
        super().__init__()
        self._symbols = board.symbols
        self._left_out = left_out
        self.choice = ColumnChoice(present, board.snapshot.words)
        self._found: dict[str, Offer] = {}
        self._text = ""
        self._is_meant = False
        """A text was typed, and nothing was done since with what it found: Enter takes the first."""
        self._refused: Sequence[str] = ()
        """Names that were to be kept, and of which one means nothing."""

    def compose(self) -> ComposeResult:
        with frame.dialog("Columns", *KEYS):
            self.field = NameField(placeholder=TYPED)
            yield self.field
            columns = (Column("", 2, right=True), Column("COLUMN", 20, grow=2), Column("SHOWS", 20, grow=3, rank=1))
            self.table = ListTable(columns, self._symbols)
            self.table.can_focus = False
            yield self.table
            self.told = Static(id="told", markup=False)
            yield self.told

    def on_mount(self) -> None:
        self.set_focus(self.field)
        self._show()
        self.set_interval(LOOK_S, self._renew)

    def _renew(self) -> None:
        """Offer settings and metrics when they were read."""
        words = cast("Dashboard", self.app).snapshot.words
        if words != self.choice.words:
            self.choice.learn(words)
            self._show(trouble=self._trouble())

    def _trouble(self) -> str:
        """Say what is wrong with the names that were refused, unless what was read since mends it."""
        try:
            self.choice.check(self._refused)
        except UnknownKey as error:
            hint = f" ({error.hint})" if error.hint else ""
            return sanitize_line(f"{error.sentence}{hint}", 300)
        return ""

    # Drawing --------------------------------------------------------------------------------------------------------

    def _show(self, *, trouble: str = "") -> None:
        if not trouble:
            self._refused = ()
        found = self.choice.find(self.field.value)
        self._found = {offer.id: offer for offer in found}
        places = {offer.id: place for place, offer in enumerate(self.choice.taken, 1)}
        self.table.empty = "no column matches" if self.field.value != "default" else "the usual columns"
        self.table.show_items(self._item(offer, places.get(offer.id)) for offer in found[:MOST])
        self.table.reveal()
        more = f", {MOST:,} listed" if len(found) > MOST else ""
        self._tell(trouble or f"{self._counted()}{more}", is_trouble=bool(trouble))

    def _item(self, offer: Offer, place: int | None) -> Item:
        number: Span = (str(place) if place is not None else "", "accent")
        name: Span = (sanitize_line(offer.name, 200), "strong" if place is not None else "plain")
        return Item(offer.id, ((number,), (name,), ((sanitize_line(offer.about, 200), "dim"),)))

    def _counted(self) -> str:
        if not self.choice.result:
            return "the usual columns"
        words = counted(len(self.choice.taken), "column")
        names = [sanitize_line(key.name, 40) for key in self._left_out(self.choice.keys)]
        more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
        return f"{words}; no room in this table for {', '.join(names[:NAMED])}{more}" if names else words

    def _tell(self, words: str, *, is_trouble: bool) -> None:
        style = self.app.theme_variables["text-warning"] if is_trouble else "dim"
        self.told.update(Text(self._symbols.text(words), style=style))

    # Keys -----------------------------------------------------------------------------------------------------------

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        self._read()

    def _read(self) -> None:
        """Narrow the list down by a text that changed; a key may come before the message that it did."""
        if self.field.value != self._text:
            self._text = self.field.value
            self._is_meant = bool(self._text.strip())
            self._show()
            self.table.action_edge(-1)

    def on_table_chosen(self, event: Table.Chosen) -> None:
        event.stop()
        self.action_choose()

    @property
    def _here(self) -> Offer | None:
        return self._found.get(self.table.cursor or "")

    def action_step(self, by: int) -> None:
        self._read()
        self._is_meant = False
        self.table.action_move(by)

    def action_page(self, by: int) -> None:
        self._read()
        self._is_meant = False
        self.table.action_page(by)

    def action_choose(self) -> None:
        """Take the column under the cursor, or leave it out."""
        self._read()
        self._is_meant = False
        if (offer := self._here) is None:
            return
        if self.choice.place(offer) is not None:
            self.choice.leave(offer)
            self._show()
        else:
            self._take(offer)

    def _take(self, offer: Offer) -> bool:
        done = self.choice.take(offer)
        self._show(trouble="" if done else f"at most {MOST_COLUMNS} columns can be chosen")
        return done

    def action_shift(self, by: int) -> None:
        """Move the column under the cursor to the left or to the right."""
        self._read()
        self._is_meant = False
        if (offer := self._here) is not None:
            self.choice.shift(offer, by)
            self._show()

    def action_keep(self) -> None:
        """Keep what is taken; what was typed and not used before Enter is taken first, and stays if it is wrong."""
        self._read()
        text = self._text.strip()
        names = ["default"] if text == "default" else split(self._text)
        if names is not None and self._is_meant:
            self._keep_only(names)
        elif self._is_meant and (offer := self._here) is None:
            self._keep_only([text])  # says why not
        elif not self._is_meant or (offer is not None and self._take(offer)):
            self.dismiss(self.choice.result)

    def _keep_only(self, names: Sequence[str]) -> None:
        try:
            self.choice.take_only(USUAL if list(names) == ["default"] else names)
        except UnknownKey:
            self._refused = names
            self._show(trouble=self._trouble())
        else:
            self.dismiss(self.choice.result)

    def action_close(self) -> None:
        self.dismiss(None)
