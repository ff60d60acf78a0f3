"""Ask before an act on all runs of a folded group: its row shows how many they are, but not which."""

from __future__ import annotations

from typing import TYPE_CHECKING

from armada.tui.screens.question import Question
from armada.units import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from armada.tui.screens.runs import RunsScreen
    from armada.tui.snapshot import RunRow


def about_group(screen: RunsScreen, verb: str, title: str, act: Callable[[Sequence[RunRow]], None]) -> None:
    """Act at once; on a folded group after a question that names its runs. Marked runs were chosen one by one.

    Args:
        screen: Has the cursor.
        verb: What `y` does.
        title: What the question begins with: `Star` 3 runs?
        act: Acts on runs: those that the screen means now, also where the group changes before the answer.
    """
    group = screen.table.closed.get(screen.table.cursor or "")
    rows = screen.concerned()
    if group is None or screen.table.marked or not rows or screen.board.read_only:
        act(rows)  # or says why it refuses
        return
    lines = [f"{row.run.run_id} on {row.host}, {row.run.state}" for row in rows]
    note = f"All runs of the folded group {group.title}. The right arrow unfolds it."
    question = Question(f"{title} {counted(len(rows), 'run')}?", lines, note, verb, screen.board.symbols)
    screen.board.push_screen(question, lambda yes: act(rows) if yes else None)
