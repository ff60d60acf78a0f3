"""What windows over a screen have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, TypeVar, cast

from textual import events, on
from textual.await_complete import AwaitComplete
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen

if TYPE_CHECKING:
    from armada.tui.app import Dashboard

Result = TypeVar("Result")


class Dialog(ModalScreen[Result]):
    """A window that closes itself and nothing else.

    Textual's closes whatever is on top: after two Enters that arrive at once, the screen below it as well; after an answer
    that comes late, the help over it.
    """

    PLACE: ClassVar[str] = ""
    """Its name in the table of keys; empty if its keys are not there."""
    BINDINGS: ClassVar[list[BindingType]] = [Binding("question_mark,f1", "window_help", "these keys", show=False)]
    """Where a text is typed, `?` is a letter of it."""

    _late: tuple[Result | None] | None = None

    def on_mount(self) -> None:
        """Take away the notices so far: they would hide what the window shows. Textual calls this for every subclass, too."""
        self.app.clear_notifications()

    def dismiss(self, result: Result | None = None) -> AwaitComplete:
        """Close it, or once it is on top again; nothing happens if it was closed before."""
        if self.is_active:
            return super().dismiss(result)
        if self in self.app.screen_stack:
            self._late = (result,)
        return AwaitComplete()

    def action_window_help(self) -> None:
        """Show all keys, those of this window first."""
        cast("Dashboard", self.app).show_help(self.PLACE)

    @on(events.ScreenResume)
    def _close_late(self) -> None:
        """Close it if that was asked for while another window was over it."""
        if self._late is not None:
            super().dismiss(*self._late)  # not awaited: it cannot be, in its own handler
