"""Stop or resume runs after a question, or sync them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from armada.tui import operations
from armada.tui.screens.out_of_sight import said_of_hidden
from armada.tui.screens.question import Question
from armada.tui.waiting_acts import Waiting
from armada.units import clock, counted
from armada.verdicts.states import ENDED, STATES

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from armada.tui.app import Dashboard
    from armada.tui.snapshot import RunRow

NOTES = {
    "stop": "It gets SIGTERM, and SIGKILL if it does not end in time. A training saves a checkpoint first; a script or "
    "command loses what it has not saved.",
    "resume": "Each run continues on its own host from its last complete checkpoint there, or else from its beginning; "
    "a host paid by the hour costs money again.",
}


SILENT = "A host that does not answer cannot be told: its run may go on, and cost money."


def _named(row: RunRow) -> str:
    """Name a run of a question: also by what a sweep calls it, with what was seen of it last."""
    run = row.run
    name = f" ({row.own_name})" if row.own_name else ""
    step = "" if run.step is None else f", step {run.step:,}"
    silent = run.unreachable_since if not run.ended else None
    seen = "" if silent is None else f" when seen last; unreachable since {clock(silent, time.time())}"
    return f"{run.run_id}{name} on {row.host}, {run.state}{step}{seen}"


def named(rows: Sequence[RunRow], theirs: Mapping[str, str], hidden: Mapping[str, str] | None = None) -> list[str]:
    """Name the runs of a question, those of other homes first, then those that are not in view.

    Args:
        rows: The runs.
        theirs: The other homes that launched some of them, by run id.
        hidden: Where those are that are not in view, by run id.
    """
    places = hidden or {}
    return [
        _named(row)
        + (f", launched by {theirs[row.id]}" if row.id in theirs else "")
        + (f", {places[row.id]}" if row.id in places else "")
        for row in sorted(rows, key=lambda row: (row.id not in theirs, row.id not in places))
    ]


def act_on_runs(board: Dashboard, verb: str, rows: Sequence[RunRow], hidden: Mapping[str, str] | None = None) -> None:
    """Stop or resume runs after asking, or sync them.

    Args:
        board: Asks, and starts them.
        verb: `stop`, `resume` or `sync`.
        rows: The runs.
        hidden: Where those are that are not in view, by run id: the question names them first.
    """
    states = {"sync": STATES, "stop": set(STATES) - ENDED, "resume": {"failed", "cancelled"}}[verb]
    able = [row for row in rows if row.run.state in states]
    if board.refuses(verb):
        return
    if not able:
        going = bool(rows) and not rows[0].run.ended
        why_not = f"is {rows[0].run.state}" if going else "has ended already" if verb == "stop" else "has succeeded"
        why_not += ": x stops it first" if going and verb == "resume" else ""
        words = f"{verb}: no run under the cursor" if not rows else f"{verb}: {rows[0].name} {why_not}"
        board.notify(board.symbols.text(words), severity="warning", markup=False)
        return

    theirs = {} if verb == "sync" else operations.launchers(board.home, [row.run.run_id for row in able])

    def go() -> None:
        _start(board, verb, able, theirs)

    if verb == "sync":
        go()
        return
    places = {row.id: hidden[row.id] for row in able if row.id in hidden} if hidden else {}
    lines = named(able, theirs, places)
    title = f"{verb.capitalize()} {counted(len(able), 'run')}?"
    note = f"{said_of_hidden(places.values())}{NOTES[verb]}"
    if verb == "stop" and any(row.run.unreachable_since is not None for row in able):
        note += f" {SILENT}"
    if theirs:
        note = f"{counted(len(theirs), 'run')} of another home, not of this one. {note}"
    board.push_screen(Question(title, lines, note, verb, board.symbols), lambda yes: go() if yes else None)


def _start(board: Dashboard, verb: str, rows: Sequence[RunRow], theirs: Collection[str]) -> None:
    """Start the command that does it to all runs; of `resume`, which takes one run, one for each.

    Args:
        board: Starts them.
        verb: `stop`, `resume` or `sync`.
        rows: The runs.
        theirs: The ids of those that another home launched.
    """
    words = ("sync", "now") if verb == "sync" else (verb,)
    ours = [row.id for row in rows if row.id not in theirs]
    others = [row.id for row in rows if row.id in theirs]
    if verb == "resume":
        wanted = [Waiting(f"{verb} {each}", (*words, each)) for each in ours]
        wanted += [Waiting(f"{verb} {each}", (*words, "--other-home", each)) for each in others]
        board.waiting.start(wanted)
        return
    # `stop` tells all hosts at once, and `sync now` fetches from all hosts at once.
    for flags, ids in (((), ours), (("--other-home",), others)):
        if ids:
            board.operate(f"{verb} {ids[0] if len(ids) == 1 else counted(len(ids), 'run')}", (*words, *flags, *ids))
