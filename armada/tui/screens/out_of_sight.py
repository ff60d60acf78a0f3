"""Ask before an act on runs that one does not see: those of a folded group, and marked ones that the list leaves out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from armada.tui.screens.question import Question
from armada.tui.widgets.run_table import FOLDED, NOT_LISTED
from armada.units import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from armada.tui.screens.runs_choices import RunsChoices
    from armada.tui.snapshot import RunRow


def ask_if_out_of_sight(screen: RunsChoices, verb: str, title: str, act: Callable[[Sequence[RunRow]], None]) -> None:
    """Act at once; on runs that one does not see after a question that names all of them.

    Args:
        screen: Has the cursor.
        verb: What `y` does.
        title: What the question begins with: `Star` 3 runs?
        act: Acts on runs: those that the screen means now, also where they change before the answer.
    """
    rows, unlisted = screen.concerned(), screen.unlisted
    group = None if screen.table.marked else screen.table.closed.get(screen.table.cursor or "")
    if not (group or unlisted) or not rows or screen.board.read_only:
        act(rows)  # or says why it refuses
        return
    rows.sort(key=lambda row: row.id not in unlisted)  # a long question shows its first lines
    lines = [f"{row.id} on {row.host}, {row.run.state}{', not listed' * (row.id in unlisted)}" for row in rows]
    note = (
        f"All runs of the folded group {group.title}. The right arrow unfolds it."
        if group is not None
        else f"{marked_and_unlisted(len(unlisted))}. In Runs, esc clears the filter, then the marks."
    )
    question = Question(f"{title} {counted(len(rows), 'run')}?", lines, note, verb, screen.board.symbols)
    screen.board.push_screen(question, lambda yes: act(rows) if yes else None)


def said_of_hidden(hidden: Collection[str]) -> str:
    """Say how many marked runs are not in view, for the note of a question; empty if all are.

    Args:
        hidden: For each of them, where it is: `NOT_LISTED` or `FOLDED`.
    """
    places = list(hidden)
    unlisted, folded = places.count(NOT_LISTED), places.count(FOLDED)
    in_rows = f"{counted(folded, 'marked run')} {'is in a folded row' if folded == 1 else 'are in folded rows'}"
    parts = [marked_and_unlisted(unlisted)] if unlisted else []
    parts += [in_rows] if folded else []
    return f"{', '.join(parts)}. " if parts else ""


def marked_and_unlisted(count: int) -> str:
    """Say that marked runs are not in the list."""
    return f"{counted(count, 'marked run')} {'is' if count == 1 else 'are'} not in the list"
