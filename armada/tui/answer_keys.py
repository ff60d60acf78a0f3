"""A key that answered a question and comes again is not meant for the screen below."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from textual import events

from armada.tui.screens.view import View

if TYPE_CHECKING:
    from textual.screen import Screen

    from armada.tui.app import Dashboard


class AnswerKeys:
    """Holds back the second of two equal keys, of which the first one answered a question.

    `x`, then `y` twice in haste, would stop a run and then sync it. How much time lies between the keys does not
    matter: any other key or click between them shows that the answer was seen.
    """

    def __init__(self) -> None:
        self._answer: tuple[str, Screen[Any]] | None = None

    def holds_back(self, event: events.Event, board: Dashboard) -> bool:
        """Return whether an event must not be handled; say so."""
        if isinstance(event, events.MouseDown):
            self._answer = None
        if not isinstance(event, events.Key) or event.is_forwarded:
            return False
        screen, before = board.screen, self._answer
        self._answer = (event.key, screen) if event.key in getattr(screen, "ANSWERS", ()) else None
        if before is None or event.key != before[0]:
            return False
        if screen is before[1]:
            return True  # it is answered, and closes now: the key would reach what is below
        if not isinstance(screen, View):
            return False
        board.notify(f"{event.key} answered the question; press it again if you mean this screen", markup=False)
        return True
