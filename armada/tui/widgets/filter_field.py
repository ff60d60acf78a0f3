"""The field of `/` on Runs, and under it what may follow, or what is wrong and where."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, cast

from rich.text import Text
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import Static

from armada.foundation.sanitize import sanitize_line
from armada.tui.widgets import frame
from armada.tui.widgets.candidates import AROUND, candidate_lines
from armada.tui.widgets.field import Field

if TYPE_CHECKING:
    from collections.abc import Sequence

    from armada.filters.errors import FilterError
    from armada.tui.app import Dashboard
    from armada.tui.filter_completion import Values
    from armada.tui.snapshot import Snapshot

SHOWN = 6
"""Candidates under the field."""


class FilterField(Field):
    """A filter, completed with Tab.

    Attributes:
        offers: The lines under the field.
        box: The frame around both; the screen places it.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("tab", "complete(1)", "complete", show=False),
        Binding("shift+tab", "complete(-1)", "complete backwards", show=False),
    ]

    def __init__(self) -> None:
        hint = "words · -word · host:… state:… tag:… is:trouble · loss<0.4 lr>1e-5 age<2d starred"
        super().__init__(placeholder=hint, id="filter", disabled=True, select_on_focus=False)
        self.offers = Static(id="offers")
        self.box = Vertical(self, self.offers, id="finder", classes=frame.FRAME)
        frame.title(self.box, "Filter")
        frame.facts(self.box, frame.keys(("tab", "completes"), ("enter", "keeps it"), ("esc", "leaves")))
        self._values: Values | None = None
        self._of: Snapshot | None = None
        self._error: FilterError | None = None
        self._candidates: Sequence[tuple[str, str]] = ()
        self._hint = ""
        self._chosen = -1
        self._start = 0
        self._before = ("", "")
        """The text before and after the cursor that Tab completes: it stays while Tab goes through the candidates."""
        self._drawn_for = 0
        """The columns of the terminal for which the lines were cut."""
        self._own: str | None = None
        """The text that Tab put here, which nobody typed."""

    @property
    def is_open(self) -> bool:
        return self.has_class("open")

    def open(self, text: str) -> None:
        """Show the field with a text, and take the focus."""
        self.value = text
        self.cursor_position = len(text)
        self.disabled = False
        self._show(True)
        self.screen.set_focus(self)  # at once: what is typed next is meant for it

    def close(self) -> None:
        """Hide the field and what is under it."""
        self._show(False)
        self.disabled = True
        self.offers.display = False

    def _show(self, is_open: bool) -> None:
        for widget in (self, self.box):
            widget.set_class(is_open, "open")

    def look(self, snapshot: Snapshot, error: FilterError | None) -> None:
        """Complete the text before the cursor.

        Args:
            snapshot: Has the runs, their settings and their metrics.
            error: Why the text is not a filter.
        """
        if not self.is_open:
            return
        self._error = error
        if self.value != self._own:
            self._complete(snapshot)
        self._draw()

    def renew(self, snapshot: Snapshot, error: FilterError | None) -> None:
        """Do the same if a new snapshot knows other settings, metrics or runs."""
        known = self._of
        if known is None or known.words is not snapshot.words or known.runs is not snapshot.runs:
            self.look(snapshot, error)

    def on_resize(self) -> None:
        """Cut what may follow to the new width; the mark below an error needs to know that of the field."""
        if self.is_open and (self._error is not None or self.app.size.width != self._drawn_for):
            self._draw()

    def _complete(self, snapshot: Snapshot) -> None:
        from armada.tui.filter_completion import Values, complete

        if self._values is None or self._values.rows is not snapshot.runs:
            self._values = Values(snapshot.runs)
        self._of, self._own, self._chosen = snapshot, None, -1
        place = self.cursor_position
        self._before = (self.value[:place], self.value[place:])
        found = complete(self.value[:place], snapshot.words, self._values)
        self._start, self._candidates, self._hint = found.start, found.candidates, found.hint

    def action_complete(self, by: int) -> None:
        """Take the next candidate; the only one is taken for good."""
        from armada.tui.filter_completion import quoted

        if not self._candidates:
            return
        count = len(self._candidates)
        self._chosen = (self._chosen + by) % count if self._chosen >= 0 or by > 0 else count - 1
        word = self._candidates[self._chosen][0]
        is_value = bool(self._before[0][: self._start]) and self._before[0][self._start - 1] in ":<>="
        taken = f"{quoted(word)} " if is_value else word if word[-1:] in ":<>=" else f"{word} "
        text = self._before[0][: self._start] + taken
        self._own = None if count == 1 else text + self._before[1]
        self.value = text + self._before[1]
        self.cursor_position = len(text)

    def _draw(self) -> None:
        symbols, self._drawn_for = cast("Dashboard", self.app).symbols, self.app.size.width
        lines = candidate_lines(self._candidates, self._chosen, SHOWN, symbols, self._drawn_for - AROUND)
        is_typed = self._candidates and self._error is not None and self._error.end >= len(self._error_text)
        if self._error is not None and not is_typed:
            lines.insert(0, self._fault(self._error))
        elif not lines and self._hint:
            lines = [Text(symbols.text(self._hint), style="dim", no_wrap=True)]
        self.offers.display = bool(lines)
        if lines:
            shown = Text("\n").join(lines)
            shown.no_wrap = True
            self.offers.update(shown)

    @property
    def _error_text(self) -> str:
        """The text as filters read it: its blanks are single."""
        return " ".join(self.value.split())

    def _fault(self, error: FilterError) -> Text:
        """Say what is wrong, with the column; the mark stands below it if the field shows its beginning."""
        column = _typed_column(self.value, error.start)
        words = f"column {column + 1}: {error.sentence}{f' → {error.hint}' if error.hint else ''}"
        is_below = len(self.value) < self.size.width and column + len(words) + 2 < self.size.width
        mark = f"{' ' * column}^ " if is_below else ""
        return Text(cast("Dashboard", self.app).symbols.text(mark + sanitize_line(words, 300)), style="bold")


def _typed_column(typed: str, column: int) -> int:
    """Return where a column of the text with single blanks is in the text as typed."""
    place = len(typed) - len(typed.lstrip())
    for _ in range(column):
        if typed[place : place + 1].isspace():
            place += len(typed[place:]) - len(typed[place:].lstrip())
        else:
            place += 1
    return min(place, len(typed))
