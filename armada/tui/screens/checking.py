"""Wait in a window for commands that only read; Escape cancels them. The question that follows gets no key typed before."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from rich.text import Text
from textual.binding import Binding
from textual.widgets import Static

from armada.foundation.sanitize import sanitize_line
from armada.tui.screens.dialog import Dialog
from armada.tui.widgets import frame

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from textual.app import ComposeResult

    from armada.tui.app import Dashboard
    from armada.tui.operations import Answer


class Checking(Dialog[list["Answer"] | None]):
    """Runs commands one after the other, and returns their answers; None if the user cancelled.

    Args:
        asked: For each command, what it checks, and its arguments after `armada`.
    """

    BINDINGS = [Binding("escape", "cancel", "cancel")]  # noqa: RUF012  # Textual declares it so
    DEFAULT_CSS = """
    Checking { align: center middle; }
    Checking Vertical { width: 90%; max-width: 90; height: auto; max-height: 95%; }
    Checking Static { height: auto; }
    """

    def __init__(self, asked: Sequence[tuple[str, Sequence[str]]]) -> None:
        super().__init__()
        self._asked = list(asked)
        self._answers: list[Answer] = []
        self._stop: Callable[[], None] | None = None

    @property
    def board(self) -> Dashboard:
        return cast("Dashboard", self.app)

    def compose(self) -> ComposeResult:
        self.box = frame.dialog(self.board.symbols.text("Checking …"), ("esc", "cancels"))
        with self.box:
            self.said = Static()
            yield self.said

    def on_mount(self) -> None:
        self._go_on()

    def on_screen_resume(self) -> None:
        """Return the answers if the last one came while another window was open over this one."""
        self._return_if_complete()

    def on_unmount(self) -> None:
        if self._stop is not None:
            self._stop()

    def action_cancel(self) -> None:
        what = sanitize_line(self._asked[min(len(self._answers), len(self._asked) - 1)][0], 200)
        self.board.notify(self.board.symbols.text(f"{what}: cancelled, nothing was changed"), markup=False)
        self.dismiss(None)

    def _go_on(self) -> None:
        done, count = len(self._answers), len(self._asked)
        if done == count:
            self._return_if_complete()
            return
        what, words = self._asked[done]
        of = f"{done + 1} of {count}: " if count > 1 else ""
        self.said.update(Text(self.board.symbols.text(f"{of}{sanitize_line(what, 200)} …")))
        self._stop = self.board.read(words, self._take)

    def _take(self, answer: Answer) -> None:
        if self.is_attached:  # else it was cancelled
            self._answers.append(answer)
            self._go_on()

    def _return_if_complete(self) -> None:
        if self.is_active and len(self._answers) == len(self._asked):
            self.dismiss(self._answers)


def check(board: Dashboard, asked: Sequence[tuple[str, Sequence[str]]], then: Callable[[list[Answer]], None]) -> None:
    """Run commands that only read, and call `then` with their answers, unless the user cancels."""
    if asked and not board.refuses(asked[0][0]):
        board.push_screen(Checking(asked), lambda answers: None if answers is None else then(answers))
