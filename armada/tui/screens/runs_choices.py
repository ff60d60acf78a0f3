"""What the user chose of the list of runs: columns, views and pins, with what undoes a choice."""

from __future__ import annotations

from typing import TYPE_CHECKING

from armada.filters.cells import MOST_COLUMNS
from armada.foundation.sanitize import sanitize_line
from armada.tui import remembered
from armada.tui.arrangement import Arrangement
from armada.tui.best import Ranking, ranking_of
from armada.tui.filtering import Query
from armada.tui.pins import Pins
from armada.tui.screens.out_of_sight import ask_if_out_of_sight
from armada.tui.screens.view import View
from armada.tui.undo import Changes
from armada.tui.views import SavedView
from armada.units import counted

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from armada.tui.snapshot import RunRow
    from armada.tui.widgets.run_table import RunTable


class RunsChoices(View):
    """The part of Runs that chooses; `RunsScreen` draws what was chosen."""

    table: RunTable

    def __init__(self) -> None:
        super().__init__()
        self.arrangement = Arrangement()
        self.is_choosing = False
        """The window with the columns is open."""
        self._columns: list[str] = []
        self._view: tuple[str, SavedView] | None = None
        self._before_typing = ""
        """The filter before the one that is typed."""

    def restore(self) -> None:
        """Read what was chosen before, of this home."""
        self._changes = Changes(self.board.home)
        self._columns = remembered.columns(self.board.home)[:MOST_COLUMNS]
        self.pins = Pins(self.board.home, writes=not self.board.read_only)

    def _find_sort(self) -> None:
        raise NotImplementedError

    @property
    def has_marks(self) -> bool:
        return bool(self.table.marked)

    @property
    def unlisted(self) -> Collection[str]:
        return self.table.unlisted

    @property
    def out_of_view(self) -> Mapping[str, str]:
        return self.table.out_of_view

    # Filter and marks -----------------------------------------------------------------------------------------------

    def _filter_by(self, query: Query) -> None:
        """Replace the filter at once; `U` brings the one before back."""
        before = self.arrangement.query.text
        self.arrangement.query = query
        self._remember_filter(before)

    def _remember_filter(self, before: str) -> None:
        """Remember the filter before the present one, if that is another; `U` brings it back."""

        def back() -> bool:
            self.arrangement.query = Query(before, self.snapshot.words)
            return True

        if before != self.arrangement.query.text:
            self._changes.add(f"filter as before: {before or 'none'}", back)

    def _unmark(self) -> None:
        """Take all marks away; `U` brings them back."""
        before = self.table.marked

        def back() -> bool:
            self.table.marked = before & self.snapshot.by_id.keys()
            self.table.refresh()
            return True

        if before:
            self._changes.add(f"marked as before: {counted(len(before), 'run')}", back)
        self.table.marked = set()
        self.table.refresh()

    # Order and groups -----------------------------------------------------------------------------------------------

    def _order_by(self, sort: str, *, reverse: bool) -> None:
        """Order the runs; `U` brings the order before back."""
        a = self.arrangement
        before = (a.sort, a.reverse)

        def back() -> bool:
            a.sort, a.reverse = before
            self._find_sort()
            return True

        if before != (sort, reverse):
            self._changes.add(f"order as before: by {before[0]}{' reversed' if before[1] else ''}", back)
        a.sort, a.reverse = sort, reverse
        self._find_sort()

    def _group_by(self, group: str) -> None:
        """Group the runs; `U` brings the groups before back."""
        a = self.arrangement
        before = a.group

        def back() -> bool:
            a.group = before
            self._find_sort()
            return True

        if before != group:
            self._changes.add(f"groups as before: {'none' if before == 'nothing' else before}", back)
        a.group = group
        self._find_sort()

    # Pins -----------------------------------------------------------------------------------------------------------

    def action_pin(self) -> None:
        """Pin the runs that an action concerns to the top; if all are pinned, take their pins away."""
        meant = self.table.marked or {self.table.cursor or ""}
        if meant & (set(self.table.folds) | set(self.table.closed)):
            words = "pin: this row is several runs; → lists them, and P pins the one under the cursor"
            self.notify(self.board.symbols.text(words), severity="warning")
            return
        ask_if_out_of_sight(self, "pin", "Pin", self.pin)

    def pin(self, rows: Sequence[RunRow]) -> None:
        """Pin runs to the top of the list; if all are pinned, take their pins away."""
        if not rows:
            self.notify("pin: no run under the cursor", severity="warning")
            return
        ids = [row.id for row in rows]
        on = not self.pins.ids.issuperset(ids)
        changed = [run_id for run_id in ids if (run_id in self.pins.ids) is not on]
        named = sanitize_line(rows[0].name, 60) if len(ids) == 1 else counted(len(ids), "run")
        if not self._set_pins(changed, on=on):
            self._say_most_pins()
            return

        def back() -> bool:
            done = self._set_pins(changed, on=not on)
            if not done:
                self._say_most_pins()
            return done

        self._changes.add(f"{'not pinned' if on else 'pinned'} as before: {named}", back)
        words = f"{named}: {'pinned to the top' if on else 'no longer pinned'}"
        self.notify(self.board.symbols.text(words), markup=False)

    def _say_most_pins(self) -> None:
        self.notify(f"pin: at most {remembered.MOST_PINNED} runs can be pinned", severity="warning")

    def _set_pins(self, run_ids: Collection[str], *, on: bool) -> bool:
        seen = self.snapshot
        is_whole = seen.first_of is None and seen.taken_at > 0 and seen.trouble is None
        done = self.pins.set(run_ids, on=on, known=seen.by_id if is_whole else None)
        if done and (self.app.screen is self or not isinstance(self.app.screen, View)):
            self.take()  # else when it is seen again
            self.table.reveal()
        return done

    def compared(self) -> list[RunRow]:
        """Return the runs for Compare, which leaves out those behind its letters: the pinned ones first, then the best ones.

        What has no values yet is last.
        """
        rows = self.concerned()
        found = ranking_of(rows, self.snapshot.bests)

        def place(row: RunRow) -> tuple[bool, float, bool]:
            rank = found.rank(row.id) if isinstance(found, Ranking) else 0.0
            return row.id not in self.pins.ids, rank, row.run.metrics_offset == 0

        return sorted(rows, key=place)

    # Columns --------------------------------------------------------------------------------------------------------

    async def action_columns(self) -> None:
        """Choose the columns of the table."""
        from armada.tui.screens.columns import ColumnsWindow
        from armada.tui.widgets.run_columns import left_out

        def take(words: list[str] | None) -> None:
            self.is_choosing = False
            if words is None or words == self._columns:
                self.board.want(self.wants())
            else:
                self._choose_columns(words)

        self.is_choosing = True
        self.board.want(self.wants())  # the settings and metrics that there are
        room = self.table.scrollable_content_region.width
        window = ColumnsWindow(self.board, self._columns, lambda keys: left_out(keys, room))
        await self.board.push_screen(window, take)  # what is typed at once is meant for it

    def _choose_columns(self, words: list[str]) -> None:
        before = self._columns

        def back() -> bool:
            self._show_columns(before)
            return True

        self._changes.add(f"columns as before: {', '.join(before) or 'the usual ones'}", back)
        self._show_columns(words)

    def _show_columns(self, words: list[str]) -> None:
        self._set_columns(words)
        self.take()

    def _set_columns(self, words: list[str]) -> None:
        """Choose columns, and remember them for the next start."""
        if words != self._columns and not self.board.read_only:
            remembered.keep_columns(self.board.home, words)
        self._columns = words

    # Views and undo -------------------------------------------------------------------------------------------------

    def undo(self) -> bool:
        """Take the last change of the list back, if no command was started after it.

        Returns:
            Whether a change was the last thing that was done, also if it could not be taken back.
        """
        said = self._changes.undo()
        if said:
            self.notify(self.board.symbols.text(sanitize_line(said, 300)), markup=False)
            self.take()
        return said is not None

    @property
    def present_view(self) -> SavedView:
        """What the table shows, as a view that can be saved."""
        a = self.arrangement
        return SavedView(a.query.text, tuple(self._columns), a.sort, a.reverse, a.group)

    def action_views(self) -> None:
        from armada.tui.screens.saved_views import choose_view

        choose_view(self.board, self._choose_view, self._changes)

    def action_save_view(self) -> None:
        from armada.tui.screens.saved_views import save_view

        present, name = self.present_view, self._view[0] if self._view else ""
        save_view(self.board, name, present, lambda typed: self._named(typed, present), self._changes)

    def _named(self, name: str, view: SavedView) -> None:
        self._view = (name, view)
        self.take()

    def _choose_view(self, name: str, view: SavedView) -> None:
        before, named = self.present_view, self._view

        def back() -> bool:
            self._show_view("", before)
            self._view = named
            return True

        self._changes.add(f"listed as before: {before.words}", back)
        self._show_view(name, view)

    def _show_view(self, name: str, view: SavedView) -> None:
        """Show a view; an order or group that this armada does not know, or that is no column, is the usual one."""
        a = self.arrangement
        a.query = Query(view.filter, self.snapshot.words)
        a.sort = view.sort
        a.group = view.group
        a.reverse = view.reverse
        self._set_columns(list(view.columns[:MOST_COLUMNS]))
        self._view = (name, self.present_view) if name else None
        self._find_sort()
        self.take()
