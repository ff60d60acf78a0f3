"""Runs: the list of all runs, with those that need you at the top."""

from __future__ import annotations

import contextlib
from functools import partial
from typing import TYPE_CHECKING

from rich.text import Text
from textual.containers import Container
from textual.widgets import Input, Static

from armada.filters.keys import UnknownKey, resolve
from armada.foundation.sanitize import sanitize_line
from armada.tui.arrangement import HEADS, SORTS
from armada.tui.bindings import bindings, of
from armada.tui.filtering import Query
from armada.tui.gpu_strips import SPAN_S
from armada.tui.listing import Listing
from armada.tui.screens.first_start import OFFERS, FirstStart
from armada.tui.screens.out_of_sight import ask_if_out_of_sight
from armada.tui.screens.runs_choices import RunsChoices
from armada.tui.watcher import MAIN, Subscription
from armada.tui.widgets import frame
from armada.tui.widgets.answers import Answers
from armada.tui.widgets.filter_field import FilterField
from armada.tui.widgets.preview import Preview
from armada.tui.widgets.run_table import NONE_LIKE_THIS, RunTable, height_of_few
from armada.tui.widgets.table import Table
from armada.units import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from textual.widget import Widget

    from armada.filters.keys import Key, Vocabulary
    from armada.tui.best import Wanted
    from armada.tui.curves import CurveUpdate
    from armada.tui.snapshot import RunRow, Snapshot
SUCCEEDED_OFFERS = frozenset(key.action for key in of("runs")) - {"stop", "resume"}
"""What the key line offers for runs that succeeded."""


class RunsScreen(RunsChoices):
    """Table, running operations, preview."""

    PLACE = "runs"
    BINDINGS = bindings("runs")
    DEFAULT_CSS = """
    RunsScreen #said { display: none; height: 1; color: $text-muted; }
    RunsScreen.-tiny #said, RunsScreen.-slim #said { display: block; }
    RunsScreen #finder { display: none; height: auto; }
    RunsScreen #finder.open { display: block; }
    RunsScreen #filter { height: 1; border: none; padding: 0 1; background: $accent 15%; }
    RunsScreen #offers { display: none; height: auto; max-height: 7; padding: 0 1; }
    RunsScreen.-low #offers { max-height: 3; }
    RunsScreen.-tiny #offers { max-height: 1; }
    RunsScreen.empty FirstStart { display: block; }
    RunsScreen.empty #main, RunsScreen.empty #said { display: none; }
    RunsScreen RunTable { height: 1fr; min-height: 2; }
    RunsScreen Preview { height: 35%; max-height: 16; }
    RunsScreen.-low Preview, RunsScreen.-tiny Preview { display: none; }
    RunsScreen Preview.closed { display: none; }
    RunsScreen #main { height: 1fr; layout: vertical; }
    RunsScreen.-vast #main { layout: horizontal; }
    RunsScreen.-vast Preview { layout: vertical; width: 34%; max-width: 100; height: 1fr; max-height: 500; }
    RunsScreen.-vast Preview.closed { display: none; }
    RunsScreen.-wide Preview #gpus { display: block; width: 60; height: 1fr; }
    RunsScreen.-vast.-grand Preview #gpus { display: block; }
    RunsScreen Answers { display: none; height: 7; }
    RunsScreen.-tall Answers { display: block; }
    RunsScreen.-grand Answers { display: block; height: 9; }
    RunsScreen.-vast.-grand Answers { height: 22%; }
    RunsScreen.-vast.-grand #loads { display: block; }
    RunsScreen.empty Answers, RunsScreen Answers.closed { display: none; }
    RunsScreen.few Preview { height: 1fr; max-height: 500; }
    RunsScreen.few Preview #gpus { max-height: 500; }
    RunsScreen.-vast.few #main { layout: vertical; }
    RunsScreen.-vast.few Preview { layout: horizontal; width: 100%; max-width: 100%; }
    RunsScreen.-vast.few Preview #gpus { display: block; width: 60; height: 1fr; max-height: 500; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._has_succeeded = False
        """Whether all runs that an act concerns have succeeded."""
        self._drawn: tuple[int, tuple[object, ...]] = (-1, ())
        self._awaited: tuple[str | None, set[str], str | None] | None = None
        self._columns_of: tuple[list[str], object] = ([], None)
        self._keys: tuple[Key, ...] = ()
        self._lines: int | None = None
        self._ticks = 0

    def body(self) -> Iterable[Widget]:
        self.said = Static(id="said")
        yield self.said
        self.field = FilterField()
        yield self.field.box
        yield FirstStart()
        self.table = RunTable(self.board.symbols, id="table", classes=frame.FRAME)
        self.preview = Preview(self.board.symbols)
        yield Container(self.table, self.preview, id="main")
        self.answers = Answers(self.board.symbols, self.board.tally)
        yield self.answers

    def on_mount(self) -> None:
        self.restore()
        self._listing = Listing(self.board.home, writes=not self.board.read_only)
        self._listing.restore(self.arrangement, self._columns, self.snapshot.words)
        self.set_focus(self.table)  # before the first paint: the frame is lit at once

    # Drawing --------------------------------------------------------------------------------------------------------

    @property
    def offers(self) -> frozenset[str] | None:
        if self.has_class("empty"):
            return OFFERS
        return SUCCEEDED_OFFERS if self._has_succeeded else None

    def _say_keys(self) -> None:
        """Leave what a run that succeeded needs no more out of the key line."""
        by_id, meant = self.snapshot.by_id, self.table.marked or self.table.runs_of(self.table.cursor or "")
        rows = [by_id[run_id] for run_id in meant if run_id in by_id]
        succeeded = bool(rows) and all(row.run.state == "succeeded" for row in rows)
        if succeeded != self._has_succeeded:
            self._has_succeeded = succeeded
            self.keys.refresh()

    def wants(self) -> Subscription:
        cursor = self.cursor_run
        curves = frozenset({(cursor, MAIN)} if cursor and self.preview.in_sight else ())
        facts = self.arrangement.query.wanted | {key.fact for key in self._keys if key.source != "run"}
        words = bool(self.arrangement.query) or bool(self._columns) or self.field.is_open or self.is_choosing
        visible = frozenset(map(self.table.mark_of, self.table.visible_keys)) | ({cursor} if cursor else frozenset())
        history = (self.preview.host, SPAN_S) if self.preview.host is not None else None
        loads = self.answers.wants_loads
        bests: Wanted = "all" if self.arrangement.grouping != "nothing" else "sweeps"
        return Subscription(
            visible, sketches=curves, facts=facts, words=words, history=history, telemetry=loads, bests=bests
        )

    def draw(self, updates: Sequence[CurveUpdate] = ()) -> None:
        snapshot = self.snapshot
        # Before the first snapshot it is unknown whether there are runs.
        is_empty = not snapshot.runs and snapshot.taken_at > 0 and snapshot.trouble is None
        if is_empty != self.has_class("empty"):
            self.set_class(is_empty, "empty")
            if is_empty:
                self.query_one(FirstStart).look(self.board.home)
            self.keys.refresh()
        self.table.empty = snapshot.reading if snapshot.is_unread and not snapshot.runs else NONE_LIKE_THIS
        a = self.arrangement
        runs = snapshot.runs if snapshot.first_of is None or a.is_usual else ()
        if len(runs) < len(snapshot.runs):  # the runs that were read are the first ones of the usual list alone
            self.table.empty = "reading …"
        if a.query.error is not None and a.query.words is not snapshot.words:
            a.query = Query(a.query.text, snapshot.words)  # a key may be known now
        a.query.facts, a.facts_version, a.bests = snapshot.facts, snapshot.facts_version, snapshot.bests
        self._find_columns(snapshot.words)
        a.pins = self.pins.ids
        chosen = (
            a.token,
            a.reverse,
            a.grouping,
            frozenset(a.opened),
            frozenset(a.shut),
            frozenset(a.closed),
            a.pins,
            snapshot.bests_version,
        )
        changed = self._changed(snapshot) if chosen == self._drawn[1] else None
        # Sorting and laying out 10,000 rows takes 20 ms, so skip it when a few changed and stay in place.
        if changed is not None and a.stays(changed):
            self.table.snapshot = snapshot
            self.table.replace({row.run.run_id: row for row in changed})
        else:
            lines = a.arrange(runs)
            self.table.depths, self.table.pins, self.table.tops = a.depths, a.pins, a.tops
            self.table.standings = a.standings
            self.table.show_runs(snapshot, lines)
        self._drawn = (snapshot.generation, chosen)
        self._follow_awaited(snapshot)
        self.preview.take(snapshot.row(self.cursor_run), updates)
        self.answers.take(snapshot)
        self._share_room()
        self._say_keys()
        self.field.renew(snapshot, a.query.error)
        self._say(self.table.run_count)
        if not self.field.is_open:
            self._listing.keep(a)

    def _share_room(self) -> None:
        """Give a table that would be half empty the lines that it needs, and the preview the others.

        Under a filter they stay: the frames would jump with each letter.
        """
        if self.arrangement.query or self.snapshot.first_of is not None:
            return
        lines = None if self.preview.has_class("closed") else height_of_few(self.table.entries, self.app.size.height)
        if lines != self._lines:
            self._lines = lines
            self.set_class(lines is not None, "few")
            self.table.styles.height = lines

    def await_run(self, host: str | None) -> Callable[[], None]:
        """Put the cursor on the next new run of a host, or of any host if that is None, unless you move it first.

        Returns:
            What ends the wait: no run will come.
        """
        self._awaited = awaited = (host, set(self.snapshot.by_id), self.table.cursor)

        def end() -> None:
            if self._awaited is awaited:
                self._awaited = None

        return end

    def _follow_awaited(self, snapshot: Snapshot) -> None:
        if self._awaited is None or snapshot.first_of is not None:
            return
        host, known, cursor = self._awaited
        new = (row for row in snapshot.runs if row.run.run_id not in known)
        came = next((row for row in new if host is None or row.run.host == host), None)
        if came is None and self.table.cursor == cursor:
            return
        self._awaited = None
        if came is not None and self.table.cursor == cursor:
            self._go_to_new(came)

    def _go_to_new(self, row: RunRow) -> None:
        """Put the cursor on the line that shows a new run; if the filter hides it, say so."""
        place = self._line_of(row, self._folded())
        if self.table.shows(place):
            self.table.place(place)
        elif self.arrangement.query:
            words = self.board.symbols.text(f"{row.name} was launched; the filter hides it")
            self.notify(words, severity="warning", markup=False)

    def _folded(self) -> dict[str, str]:
        """Return the keys of the lines of groups and sweeps that are not unfolded, by the ids of their runs."""
        sweeps = {row.id: key for key, fold in self.table.folds.items() if not fold.is_open for row in fold.rows}
        return sweeps | {row.id: key for key, group in self.table.closed.items() for row in group.folded}

    def _line_of(self, row: RunRow, folded: Mapping[str, str]) -> str:
        """Return the key of the line that shows a run: its own, or the one that it is folded into."""
        return row.id if self.table.shows(row.id) else folded.get(row.id, row.id)

    def _changed(self, snapshot: Snapshot) -> list[RunRow] | None:
        """Return the rows that differ from those drawn; None if unknown."""
        if snapshot.generation == self._drawn[0]:
            return []
        if snapshot.generation != self._drawn[0] + 1 or snapshot.changed is None:
            return None
        return [snapshot.by_id[run_id] for run_id in snapshot.changed]

    def _find_columns(self, words: Vocabulary) -> None:
        """Find the columns that were chosen; one that no run has is left out."""
        if self._columns_of == (self._columns, words):
            return
        self._columns_of = (self._columns, words)
        found = []
        for word in self._columns:
            with contextlib.suppress(UnknownKey):
                found.append(resolve(word, lambda: words))
        self._keys = tuple(found)
        self.table.choose(self._keys)
        self._find_sort()

    def tick(self) -> None:
        super().tick()
        if self._drawn[1][:1] != (self.arrangement.token,):
            self.draw()  # a filter about ages
        self.preview.tick()
        self._ticks += 1
        if self._ticks % 10 == 1:  # ages there go on by tens of seconds
            self.table.refresh_changed()
            self.answers.tick()

    def on_resize(self) -> None:
        self._say(self.table.run_count)

    def _say(self, shown: int) -> None:
        a = self.arrangement
        view = self._view
        parts = [self.board.symbols.text(view[0])] if view is not None and view[1] == self.present_view else []
        parts += [f"/ {a.query.text}"] if a.query else []
        sort = a.sort if a.sort in SORTS or a.sort_key is not None else "urgency"
        parts += [f"by {sort}{' reversed' if a.reverse else ''}"]
        parts += [self.board.symbols.text(f"grouped by {a.grouping}")] if a.grouping != "nothing" else []
        unlisted = len(self.unlisted)
        not_all = f", {unlisted} not listed" if unlisted else ""
        parts += [f"{len(self.table.marked)} marked{not_all}"] if self.table.marked else []
        if a.query.error is not None:
            words = a.query.error.sentence + (f" → {a.query.error.hint}" if a.query.error.hint else "")
            parts = [f"/ {a.query.text}", self.board.symbols.text(sanitize_line(words, 200))]
        frame.title(self.table, f"Runs  {'  '.join(parts)}")
        whole = self.snapshot.first_of
        said = (
            f"{shown:,} of {len(self.snapshot.runs):,} runs" if whole is None else f"reading {counted(whole, 'run')} …"
        )
        frame.facts(self.table, self.board.symbols.text(said))
        left, right = "  ".join(parts), self.board.symbols.text(said)
        room = max(1, self.size.width - len(left) - len(right) - 2)
        self.said.update(Text(f" {left}{' ' * room}{right}", no_wrap=True), layout=False)

    def _redraw(self) -> None:
        """Draw what was just chosen, the cursor in sight, and ask for what it needs: another snapshot may not come for long."""
        self.draw()
        self.table.reveal()
        if self.is_current:
            self.board.want(self.wants())

    # Events of the table --------------------------------------------------------------------------------------------

    def on_table_rested(self) -> None:
        self._say_keys()
        self.preview.take(self.snapshot.row(self.cursor_run), ())
        if self.is_current:
            self.board.want(self.wants())

    def on_table_chosen(self) -> None:
        self.action_open()

    def on_table_headed(self, event: Table.Headed) -> None:
        """Sort by the column whose title was clicked; a second click reverses the order."""
        key = self.table.key_of(event.place)
        sort = HEADS.get(self.table.columns[event.place].title) if key is None else key.name
        if sort is not None:
            self._order_by(sort, reverse=sort == self.arrangement.sort and not self.arrangement.reverse)
            self._redraw()

    def _find_sort(self) -> None:
        """Find the columns that the table is sorted and grouped by, if they are of the user's choice."""
        a = self.arrangement
        a.sort_key = next((key for key in self._keys if key.name == a.sort), None) if a.sort not in SORTS else None
        settings = (key for key in self._keys if key.source == "setting")
        a.group_key = next((key for key in settings if key.name == a.group), None)

    # Keys -----------------------------------------------------------------------------------------------------------

    def concerned(self) -> list[RunRow]:
        meant = self.table.marked or self.table.runs_of(self.table.cursor or "")
        return [row for row in self.snapshot.runs if row.run.run_id in meant]

    def action_sync(self) -> None:
        ask_if_out_of_sight(self, "sync", "Sync", partial(self._act, "sync"))

    def action_label(self, what: str) -> None:
        asks = {"star": "Star", "archive": "Archive"}  # the others ask for a text, and name the count there
        if what in asks:
            ask_if_out_of_sight(self, what, asks[what], partial(self._label, what))
        else:
            super().action_label(what)

    @property
    def cursor_run(self) -> str | None:
        """The run under the cursor; of a sweep the cell that stands first in its row; of a folded group none."""
        fold = self.table.folds.get(self.table.cursor or "")
        if self.table.cursor in self.table.closed:
            return None
        return self.table.cursor_mark if fold is None else fold.rows[0].run.run_id

    def action_open(self) -> None:
        fold = self.table.folds.get(self.table.cursor or "")
        if self.table.cursor in self.table.closed:
            self.action_unfold(True)
        elif fold is None:
            self.board.open_run(self.cursor_run)
        else:
            self.action_unfold(not fold.is_open)

    def action_unfold(self, opens: bool) -> None:
        """List the cells of the sweep or the runs of the group under the cursor, or put them back into one row."""
        cursor = self.table.cursor
        if cursor in self.table.closed:
            if opens:
                self.arrangement.closed.discard(cursor)
                self._redraw()
                self.table.place(self.table.first_under(cursor) or "")
            return
        key = self.table.fold_of(cursor or "")
        if not opens and (key is None or not self.table.folds[key].is_open):
            if (group := self.table.group_of(cursor or "")) is not None:
                self.arrangement.closed.add(group)
                self._redraw()
                self.table.place(group)
        elif key is not None:
            self.arrangement.unfold(key, opens=opens)
            self._redraw()
            self.table.place(key)

    def action_logs(self) -> None:
        self.board.open_run(self.cursor_run, "log")

    def action_launch(self) -> None:
        from armada.tui.screens.begin_launch import begin_launch

        begin_launch(self.board)

    def action_compare(self) -> None:
        self.board.action_go("compare")

    def action_newest(self) -> None:
        """Put the cursor on the newest run in the table, or on the row of its sweep or its folded group."""
        folded = self._folded()
        for row in self.snapshot.runs:
            key = self._line_of(row, folded)
            if self.table.shows(key):
                self.table.place(key)
                return

    def action_look(self) -> None:
        self.board.operate("check all hosts", ["ps"])

    def action_mark(self) -> None:
        if self.table.cursor is not None:
            self.table.toggle_mark(self.table.cursor)
            self.table.action_move(1)
            self._redraw()

    def action_mark_all(self) -> None:
        rows = (entry.key for entry in self.table.entries if entry.kind == "row")
        shown = {run_id for key in rows for run_id in self.table.runs_of(key)}
        self.table.marked = set() if shown <= self.table.marked else shown
        self.table.refresh()
        self._redraw()

    def action_sort(self) -> None:
        order = list(SORTS)
        place = order.index(self.arrangement.sort) if self.arrangement.sort in order else -1
        self._order_by(order[(place + 1) % len(order)], reverse=self.arrangement.reverse)
        self._redraw()

    def action_reverse(self) -> None:
        self._order_by(self.arrangement.sort, reverse=not self.arrangement.reverse)
        self._redraw()

    def action_group(self) -> None:
        groupings = self.arrangement.groupings(self.snapshot.runs)
        order = [*groupings, *(key.name for key in self._keys if key.source == "setting")]
        place = order.index(self.arrangement.group) if self.arrangement.group in order else -1
        self._group_by(order[(place + 1) % len(order)])
        self._redraw()

    def action_preview(self) -> None:
        self.preview.toggle_class("closed")
        self.answers.toggle_class("closed")
        self.take()

    def action_filter(self) -> None:
        self._before_typing = self.arrangement.query.text
        self.field.open(self.arrangement.query.text)
        self.field.look(self.snapshot, self.arrangement.query.error)
        self.board.want(self.wants())  # the settings and metrics that there are

    def on_input_changed(self, event: Input.Changed) -> None:
        self.arrangement.query = Query(event.value, self.snapshot.words)
        self._redraw()
        self.field.look(self.snapshot, self.arrangement.query.error)

    def on_input_submitted(self) -> None:
        self._close_filter()

    def only_host(self, name: str) -> None:
        """Show the runs of one host."""
        from armada.tui.filter_completion import quoted

        self._filter_by(Query(f"host:{quoted(name)}", self.snapshot.words))
        self._redraw()

    def back(self) -> bool:
        """Handle Escape: close the field, else clear the filter, else clear the marks."""
        if self.field.is_open:
            self._close_filter()
        elif self.arrangement.query:
            self._filter_by(Query())
        else:
            self._unmark()
        self._redraw()
        return True

    def _close_filter(self) -> None:
        self.field.close()
        self._remember_filter(self._before_typing)
        fold = self.table.folds.get(self.table.cursor or "")
        if self.arrangement.query and fold is not None and fold.is_open:
            self.table.place(fold.rows[0].id)  # Enter opens what was looked for
        self.table.focus()
        self._listing.keep(self.arrangement)
