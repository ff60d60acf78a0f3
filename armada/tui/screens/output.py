"""What a command printed, in a window that scrolls and searches."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from armada.foundation.sanitize import sanitize_line
from armada.tui.bindings import bindings
from armada.tui.log_file import LogFile
from armada.tui.operations import without_file
from armada.tui.screens.prompt import Prompt
from armada.tui.screens.window import Window, inside
from armada.tui.widgets.log_view import LogView

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from textual.widget import Widget

    from armada.tui.app import Dashboard

LOOK_S = 0.25
TABLES = (("ps",), ("sync", "ls"), ("hosts", "ls"), ("costs",), ("profiles",))
"""Commands that print tables: a row that is wrapped cannot be read, so it is scrolled."""


class OutputWindow(Window):
    """Shows a file while it grows, from its beginning.

    Args:
        words: The command, after `armada`; it is the title, and what `y` copies.
        log: The file with its output.
        exit_code: Returns how it ended; None while it runs.
        leave: Called when the window is closed.
    """

    PLACE = "output"
    BINDINGS = bindings("output")

    def __init__(
        self,
        words: Sequence[str],
        log: Path,
        exit_code: Callable[[], int | None],
        leave: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__()
        self._command = shlex.join(["armada", *words]) if words else "armada"
        self._is_table = any(tuple(words[: len(each)]) == each for each in TABLES)
        self._log = log
        self._exit_code = exit_code
        self._leave = leave

    def body(self) -> Iterable[Widget]:
        self.view = LogView(self.board.symbols)
        self.view.fills, self.view.hangs = False, True
        self.view.wrapping = not self._is_table
        yield self.view

    def on_mount(self) -> None:
        self.view.show(LogFile(self._log), empty="")
        self.view.action_first()
        self.view.focus()
        self._look()
        self.set_interval(LOOK_S, self._look)

    def on_unmount(self) -> None:
        self._leave()

    def _look(self) -> None:
        code = self._exit_code()
        state = "running …" if code is None else "" if code == 0 else f"ended with {code}"
        said = f"   {state}" if state else ""
        command = sanitize_line(self._command, 300)
        self.say(self.board.symbols.shortened(command, max(8, inside(self.app.size.width) - 2 - len(said))) + said)
        self.view.show(LogFile(self._log), empty="running …" if code is None else "it printed nothing")

    def action_copy(self) -> None:
        self.app.copy_to_clipboard(self._command)
        self.tell(f"copied: {self._command}")

    def action_search(self) -> None:
        note = "n and N then go to the next match and the one before."
        prompt = Prompt("Search in the output", note, self.view.word, self.board.symbols)
        self.board.push_screen(prompt, self._search)

    def _search(self, word: str | None) -> None:
        if word is not None:
            self.view.word = word
            self.view.search_from_top()

    def action_search_on(self, back: bool) -> None:
        if self.view.word:
            self.view.search_on(back=back)
        else:
            self.action_search()

    def action_wrap(self) -> None:
        self.view.toggle_wrap()


def show_output(board: Dashboard, *commands: Sequence[str]) -> OutputWindow | None:
    """Run commands that only read, and show what they print in a window.

    Args:
        board: Shows the window.
        commands: The arguments after `armada`, for each command.

    Returns:
        The window; None if there can be no file for the output: the user is told why.
    """
    from armada.tui.outputs import Reading

    try:
        reading = Reading(board.home, commands, inside(board.size.width))
    except OSError as error:
        words = f"{sanitize_line(shlex.join(commands[0]), 200)}: {without_file(error)}"
        board.notify(board.symbols.text(words), severity="error", markup=False, timeout=15)
        return None
    window = OutputWindow(commands[0], reading.log, lambda: reading.exit_code, reading.stop)
    board.push_screen(window)
    return window


def diagnose(board: Dashboard, name: str) -> None:
    """Diagnose a host, and show the findings in a window."""
    if not board.refuses("doctor"):
        show_output(board, ("doctor", "--", name))
