"""What was started from the dashboard: copy the command, show its output, interrupt it, start it again, undo it."""

from __future__ import annotations

import signal
import time
from functools import partial
from typing import TYPE_CHECKING

from armada.foundation.sanitize import sanitize_line
from armada.tui import acts
from armada.tui.bindings import bindings
from armada.tui.screens.output import OutputWindow
from armada.tui.screens.window import Window
from armada.tui.waiting_acts import Waiting
from armada.tui.widgets.list_table import Item, ListTable
from armada.tui.widgets.table import Column
from armada.units import rough_span

if TYPE_CHECKING:
    from collections.abc import Iterable

    from textual.widget import Widget

    from armada.tui.acts import Act
    from armada.tui.app import Dashboard
    from armada.tui.operations import Ended
    from armada.tui.widgets.table import Cells, Span

COLUMNS = (
    Column("AGO", 6, right=True, rank=2),
    Column("ENDED", 12, rank=1),
    Column("COMMAND", 18, grow=1),
    Column("UNDO", 9, rank=3),
)
"""Beside how it ended, 18 columns of the command fit into the window of a terminal with 40."""
LOOK_S = 1.0
FRESH_S = 600.0
"""An older act is undone after a question: who presses `U` has done something since."""
INTERRUPTED = (130, -signal.SIGINT)
"""Exit codes of what Ctrl-C ended: as the table of exit codes says, or before armada's own code ran."""
NOTHING = (
    "there is nothing to undo: stars, tags, notes, groups and archiving can be; on Runs columns, views, pins, filter, "
    "order and groups, too"
)
NOT_UNDONE = "it cannot be undone: only stars, tags, notes, groups and archiving can"
BLIND = "it cannot be undone: which runs it changed is not recorded. In History (7), u undoes an older act"


class HistoryWindow(Window):
    """A row for each act, newest first."""

    PLACE = "history"
    BINDINGS = bindings("history")

    def body(self) -> Iterable[Widget]:
        self.table = ListTable(COLUMNS, self.board.symbols)
        self.table.empty = "nothing was started from the dashboard yet"
        yield self.table

    def on_mount(self) -> None:
        self._look()
        self.table.focus()
        self.set_interval(LOOK_S, self._look)

    def _look(self) -> None:
        waiting = len(self.board.waiting)
        more = f"; {waiting} more {'waits' if waiting == 1 else 'wait'}" if waiting else ""
        self.say(f"History: what was started from the dashboard{more}")
        self._acts = {act.name: act for act in acts.newest(self.board.home)}
        now = time.time()
        self.table.show_items(
            Item(act.name, (((_ago(act, now), "dim"),), (_end(act),), _said(act), (_undo(act),)), self._more(act))
            for act in self._acts.values()
        )

    def _more(self, act: Act) -> tuple[Cells, ...]:
        """Say how to find out what became of an act whose end nobody recorded."""
        if act.exit_code is not None or act.runs:
            return ()
        run = next((word for word in act.words if word in self.board.snapshot.by_id), None)
        how = f"`armada show {run}`" if run is not None else "`armada ps`"
        said = (
            f"nobody recorded how it ended, as if the dashboard was killed: o shows its output, {how} what became of it"
        )
        return ((((said, "dim"),),),)

    @property
    def act(self) -> Act | None:
        """The act under the cursor."""
        return self._acts.get(self.table.cursor or "")

    def action_copy(self) -> None:
        if (act := self.act) is None:
            return
        if self._lacks_words(act):
            return
        self.app.copy_to_clipboard(act.command_line)
        self.tell(f"copied: {act.command_line}")

    def _lacks_words(self, act: Act) -> bool:
        """Return whether it is not recorded which command was started, and say why."""
        if not act.words:
            self.tell("an older dashboard started it and did not record the command", bad=True)
        elif not act.is_whole:
            self.tell("what may be a secret in it was not recorded (…); type the whole command after :", bad=True)
        return not (act.words and act.is_whole)

    def action_output(self) -> None:
        if (act := self.act) is not None:
            log = act.log
            self.board.push_screen(OutputWindow(act.words or (act.title,), log, partial(acts.exit_code, log)))

    def action_again(self) -> None:
        from armada.tui.screens.matching import means_any
        from armada.tui.screens.question import Question

        if self.board.refuses("start it again") or (act := self.act) is None:
            return
        if self._lacks_words(act):
            return
        if means_any(act.words):
            self.tell("it names no runs: type it behind `:`, which finds and names them first", bad=True)
            return

        def go(yes: bool | None) -> None:
            if yes:
                self.board.operate(act.title, act.words)
                self._look()

        question = Question(
            "Start it again?", [act.command_line], "It starts as typed in a shell.", "start", self.board.symbols
        )
        self.board.push_screen(question, go)

    def action_interrupt(self) -> None:
        from armada.tui.screens.question import Question

        if self.board.refuses("interrupt it") or (act := self.act) is None:
            return
        if not act.runs:
            self.tell("it has ended" if act.exit_code is not None else "it does not run any more", bad=True)
            return

        def go(yes: bool | None) -> None:
            if yes and not acts.interrupt(act):
                self.tell("it ended meanwhile", bad=True)
            self._look()

        note = "As Ctrl-C does: what it has started on hosts goes on, and the same command continues what is half done."
        question = Question("Interrupt it?", [act.command_line or act.title], note, "interrupt", self.board.symbols)
        self.board.push_screen(question, go)

    def action_undo_act(self) -> None:
        if not self.board.refuses("undo") and (act := self.act) is not None:
            undo(self.board, act)
            self._look()

    def on_table_chosen(self) -> None:
        self.action_output()


def undo(board: Dashboard, act: Act) -> None:
    """Start the commands that undo an act, or say why it cannot be undone."""
    title = act.title or act.command_line
    if act.can_undo:
        if board.refuses("undo"):  # the store may have gone while a question was open
            return
        acts.record_undone(act.log)  # at once: a second key must not undo it again
        board.waiting.start(
            [Waiting(f"undo {title}", words, partial(_undone, act), undoes=act.name) for words in act.undo]
        )
        return
    why = BLIND if act.is_blind else NOT_UNDONE
    if act.is_undone:
        why = "it is undone already"
    elif act.undo and act.runs:
        why = "it still runs"
    elif act.undo:
        why = "it failed, or how it ended is unknown"
    board.notify(board.symbols.text(sanitize_line(f"{title}: {why}", 300)), severity="warning", markup=False)


def _undone(act: Act, ended: Ended) -> None:
    """Take back that an act is undone, if a command that undoes it has failed."""
    if ended.exit_code:
        acts.record_undone(act.log, is_undone=False)


def undo_last(board: Dashboard) -> None:
    """Undo the newest act that can be undone, and say what it was; say so if it still runs."""
    if board.refuses("undo"):
        return
    found = acts.to_undo(board.home)
    if found is None:
        board.notify(NOTHING, severity="warning")
        return
    now = time.time()
    if not found.can_undo or 0 <= now - found.started_at < FRESH_S:
        undo(board, found)
        return
    from armada.tui.screens.question import Question

    said = sanitize_line(found.command_line or found.title, 1000)
    note = "It is the last act that can be undone. History (7) lists all of them, and u there undoes the one under the cursor."
    question = Question(f"Undo what was done {_ago(found, now)} ago?", [said], note, "undo", board.symbols)
    board.push_screen(question, lambda yes: undo(board, found) if yes else None)


def _ago(act: Act, now: float) -> str:
    return rough_span(now - act.started_at)


def _end(act: Act) -> Span:
    if act.exit_code in INTERRUPTED:
        return ("interrupted", "dim")
    if act.exit_code is not None:
        return ("done", "good") if act.exit_code == 0 else (f"failed ({act.exit_code})", "bad")
    return ("running", "accent") if act.runs else ("unknown", "dim")


def _said(act: Act) -> tuple[Span, ...]:
    return ((sanitize_line(act.command_line or f"{act.title} (command not recorded)", 1000), "plain"),)


def _undo(act: Act) -> Span:
    if act.is_undone:
        return "undone", "dim"
    return ("u undoes", "plain") if act.can_undo else ("", "plain")
