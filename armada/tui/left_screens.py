"""Screens as they were left, or made before anyone asks: to come back to one costs a third of making it anew."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, TypeVar

from armada.tui import screens
from armada.tui.screens.view import View

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.timer import Timer

    from armada.tui.app import Dashboard

MAKES_AHEAD = True
"""Off in most tests: one that opens one screen need not pay for five."""

V = TypeVar("V", bound="View")

AHEAD_S = 1.0
"""After so many seconds the screens are imported: until then the first one has the processor for itself."""
REST_S = 0.5
"""A screen is made ahead only when no key was pressed for so long, in seconds."""


class LeftScreens:
    """At most one screen of each place, on top or left.

    Args:
        board: Whose screens they are.
    """

    def __init__(self, board: Dashboard) -> None:
        self._board = board
        self._kept: dict[str, View] = {}
        self._importing = threading.Thread(target=screens.import_all, name="screens", daemon=True)
        self._ahead: Timer | None = None

    def make_ahead(self) -> None:
        """Import all screens soon, beside the event loop; then make each while nobody presses a key.

        A first opening takes half as long then.
        """
        self._board.set_timer(AHEAD_S, self._importing.start)
        if MAKES_AHEAD:
            self._ahead = self._board.set_interval(REST_S / 2, self._make_next)

    def go_on(self) -> None:
        """Make screens again, now that the first one is on top again."""
        if self._ahead is not None and len(self._board.screen_stack) == 1:
            self._ahead.resume()

    def _make_next(self) -> None:
        if len(self._board.screen_stack) != 1:
            if self._ahead is not None:
                self._ahead.pause()  # to look four times a second is half of what an idle dashboard costs
            return
        top = self._board.screen
        is_imported = self._importing.ident is not None and not self._importing.is_alive()
        is_drawn = top.is_mounted  # else no run is under its cursor yet
        if not is_imported or not is_drawn or time.monotonic() - self._board.last_input_at < REST_S:
            return
        for kind in screens.made_ahead():
            if kind.PLACE not in self._kept:
                self._kept[kind.PLACE] = made = kind.likely(top.cursor_run if isinstance(top, View) else None)
                made.is_ahead = True
                self._board.make(made)
                return
        if self._ahead is not None:
            self._ahead.stop()

    def holds(self, screen: object) -> bool:
        """Whether a screen stays when another one takes its place."""
        return any(each is screen for each in self._kept.values())

    def open(self, kind: type[V], make: Callable[[], V], shows: tuple[str, ...] = ()) -> V:
        """Return the screen of a kind that shows this, as it was left; else the left one, turned over, or a new one.

        Args:
            kind: The class of the screen.
            make: Makes a new one.
            shows: What it shows: the runs.
        """
        known = self._kept.get(kind.PLACE)
        is_left = known is not None and _lives(known) and not self._is_open(known)
        if is_left and isinstance(known, kind):
            is_same = known.shows == shows
            if is_same or known.turn_over(shows):
                known.visits += 1
                known.is_new |= not is_same
                return known
        self.forget(kind.PLACE)
        made = make()
        self._kept[kind.PLACE] = made
        return made

    def forget(self, place: str) -> None:
        """Keep the screen of a place no longer; if it is open, it goes when another takes its place."""
        known = self._kept.pop(place, None)
        if known is not None and _lives(known) and not self._is_open(known):
            known.remove()

    def outdate(self) -> None:
        """Colours or the terminal's size changed: what was left is styled and laid out anew when it is opened."""
        for each in self._kept.values():
            each.is_outdated = not self._is_open(each)

    def _is_open(self, view: View) -> bool:
        return any(each is view for each in self._board.screen_stack)


def _lives(view: View) -> bool:
    """Whether Textual has a screen, or is making it at this moment."""
    return view.is_running or view.is_ahead
