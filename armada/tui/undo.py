"""Undo what a screen itself changed, without a command: columns, views, what is listed."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from armada.tui import acts

if TYPE_CHECKING:
    from collections.abc import Callable

    from armada.paths import HomePaths

MOST = 50


class _Change(NamedTuple):
    after: str
    """The newest act before it: their names are in order also when the clock goes back."""
    said: str
    back: Callable[[], bool]


class Changes:
    """Changes of one screen, newest last.

    Args:
        home: Where the acts are: the newer one of act and change is undone first.
    """

    def __init__(self, home: HomePaths) -> None:
        self._home = home
        self._changes: list[_Change] = []

    def add(self, said: str, back: Callable[[], bool]) -> None:
        """Remember a change.

        Args:
            said: What is so again when it is undone.
            back: Undoes it, and returns whether it did; if not, it has said why.
        """
        self._changes = [*self._changes, _Change(acts.newest_name(self._home), said, back)][-MOST:]

    def undo(self) -> str | None:
        """Undo the newest change, if no command that can be undone, now or once it has ended, was started after it.

        Returns:
            What is so again; empty if it could not be undone, None if there was nothing to undo.
        """
        if not self._changes:
            return None
        change = self._changes[-1]
        act = acts.to_undo(self._home)
        if act is not None and act.name > change.after:
            return None
        self._changes.pop()
        return change.said if change.back() else ""
