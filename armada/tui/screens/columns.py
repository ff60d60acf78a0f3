"""Ask for the columns of the table of runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from armada.filters.cells import MOST_COLUMNS
from armada.filters.keys import UnknownKey, resolve
from armada.foundation.sanitize import sanitize_line
from armada.tui.screens.prompt import Prompt

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from armada.tui.app import Dashboard

NOTE = "Keys with commas between: name,state,lr,eval_loss,cost,tag,age. `default` shows the usual columns."


def ask_columns(board: Dashboard, present: Sequence[str], then: Callable[[list[str]], None]) -> None:
    """Ask for columns, and call `then` with their keys if they are others than before; none are the usual ones."""

    def take(text: str | None) -> None:
        if text is None:
            return
        words = [word.strip() for word in text.split(",") if word.strip()]
        words = [] if words == ["default"] else words[:MOST_COLUMNS]
        wrong = []
        for word in words:
            try:
                resolve(word, lambda: board.snapshot.words)
            except UnknownKey as error:
                wrong.append(f"{error.sentence}{f' ({error.hint})' if error.hint else ''}")
        if wrong:
            board.notify(board.symbols.text(sanitize_line(wrong[0], 300)), severity="warning", markup=False)
        elif words != list(present):
            then(words)

    board.push_screen(Prompt("Columns", NOTE, ",".join(present), board.symbols), take)
