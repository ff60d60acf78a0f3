"""Choose, save and delete views of the Runs screen."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from textual.binding import Binding

from armada.errors import ArmadaError
from armada.foundation.sanitize import sanitize_line
from armada.tui import views
from armada.tui.screens.chooser import Choice, Chooser

if TYPE_CHECKING:
    from collections.abc import Callable

    from armada.tui.app import Dashboard
    from armada.tui.undo import Changes
    from armada.tui.views import SavedView

NONE_YET = "No view is saved yet: esc closes this, and V saves what Runs shows now."
EVERYTHING = ""
"""Chosen to see all runs again; no view has this name."""


class ViewChooser(Chooser):
    """The saved views; Ctrl-D deletes the one under the cursor."""

    KEYS = (*Chooser.KEYS, ("^d", "deletes it"))
    BINDINGS = [Binding("ctrl+d", "delete", "delete", priority=True)]  # noqa: RUF012  # Textual declares it so

    def __init__(self, board: Dashboard, changes: Changes) -> None:
        self._home = board.home
        self._changes = changes
        listed = self._listed()
        super().__init__("Views", listed, board.symbols, NONE_YET if len(listed) == 1 else "")

    def _listed(self) -> list[Choice]:
        found = [Choice(name, name, view.words) for name, view in views.load(self._home).items()]
        return [*found, Choice(EVERYTHING, "everything", "no filter, the usual order and columns")]

    def action_delete(self) -> None:
        """Delete the view under the cursor."""
        name = self.table.cursor
        if not name or cast("Dashboard", self.app).refuses("delete a view"):
            return
        before = views.load(self._home).get(name)
        if _said(cast("Dashboard", self.app), lambda: views.delete(self._home, name)):
            _remember(cast("Dashboard", self.app), self._changes, name, before, None)
            self._choices = self._listed()
            self._say(NONE_YET if len(self._choices) == 1 else "")
            self._show("")


def choose_view(board: Dashboard, then: Callable[[str, SavedView], None], changes: Changes) -> None:
    """Let the user choose a view, and pass it on with its name; views that are deleted go to `changes`."""

    def take(name: str | None) -> None:
        if name is None:
            return
        found = views.SavedView() if name == EVERYTHING else views.load(board.home).get(name)
        if found is not None:
            then(name, found)

    board.push_screen(ViewChooser(board, changes), take)


def save_view(board: Dashboard, name: str, view: SavedView, then: Callable[[str], None], changes: Changes) -> None:
    """Ask for a name, and save a view under it; what was there before goes to `changes`."""

    def take(typed: str | None) -> None:
        before = views.load(board.home).get(typed or "")
        if typed is not None and _said(board, lambda: views.save(board.home, typed, view)):
            _remember(board, changes, typed, before, view)
            board.notify(board.symbols.text(f"saved: {typed} (v chooses it)"), markup=False)
            then(typed)

    if not board.refuses("save a view"):
        note = f"{sanitize_line(view.words, 300)}\n\nA view of the same name is replaced."
        board.ask_word("Save this view as", note, name, take)


def _remember(board: Dashboard, changes: Changes, name: str, before: SavedView | None, after: SavedView | None) -> None:
    """Remember how a view was before it was saved or deleted, and is now; None if there is none of the name."""
    said = f"view {name} as before: {'none' if before is None else before.words}"

    def back() -> bool:
        if views.load(board.home).get(name) != after:
            words = f"view {sanitize_line(name, 80)} stays: another dashboard has changed it since"
            board.notify(board.symbols.text(words), severity="warning", markup=False)
            return False
        done = _said(
            board,
            lambda: views.delete(board.home, name) if before is None else views.save(board.home, name, before),
        )
        if not done:
            changes.add(said, back)  # to be tried again: a full disk may have room by then
        return done

    changes.add(said, back)


def _said(board: Dashboard, act: Callable[[], None]) -> bool:
    """Do something to the file of views; return whether it worked, and say why not."""
    try:
        act()
    except (ArmadaError, OSError) as error:
        hint = f" → {error.hint}" if isinstance(error, ArmadaError) and error.hint else ""
        board.notify(board.symbols.text(sanitize_line(f"{error}{hint}", 300)), severity="warning", markup=False)
        return False
    return True
