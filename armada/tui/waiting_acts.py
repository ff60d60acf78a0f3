"""Start many commands a few at a time: each is a process of 45 MB, and of a second of processor time."""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from armada.foundation.sanitize import sanitize_line
from armada.tui import acts
from armada.tui.operations import NOT_STARTED, Ended
from armada.units import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from armada.tui.app import Dashboard

AT_ONCE = 4
_NAMED = 10


class Waiting(NamedTuple):
    """A command that is to be started; the fields are what `Dashboard.operate` takes."""

    title: str
    words: Sequence[str]
    ended: Callable[[Ended], None] | None = None
    undoes: str | None = None


class WaitingActs:
    """The commands of one dashboard that wait for others to end.

    Args:
        board: Starts them, and is told when they have ended.
    """

    def __init__(self, board: Dashboard) -> None:
        self._board = board
        self._waiting: deque[Waiting] = deque()
        self._running: set[int] = set()
        self._started = 0

    def __len__(self) -> int:
        """How many are not started yet."""
        return len(self._waiting)

    def start(self, wanted: Sequence[Waiting]) -> None:
        """Start commands: one alone at once, of several at most `AT_ONCE` at a time, in this order."""
        if len(wanted) == 1:
            (act,) = wanted
            self._board.operate(act.title, act.words, act.ended, undoes=act.undoes)
            return
        self._waiting.extend(wanted)
        self._start_next()
        if self._waiting:
            words = f"{AT_ONCE} run at a time, {len(self)} wait. What still waits when you quit is not started."
            self._board.notify(words, markup=False)

    def drop(self) -> str:
        """Start no more. Return which were not started, for the user; "" if none waited."""
        left = list(self._waiting)
        self._waiting.clear()
        for act in left:
            if act.ended is not None:
                act.ended(Ended(act.title, NOT_STARTED, "not started", acts.folder_of(self._board.home)))
        if not left:
            return ""
        named = ", ".join(sanitize_line(act.title, 100) for act in left[:_NAMED])
        more = f" and {len(left) - _NAMED} more" if len(left) > _NAMED else ""
        verb = "was" if len(left) == 1 else "were"
        return f"{counted(len(left), 'command')} {verb} not started: {named}{more}"

    def _start_next(self) -> None:
        while self._waiting and len(self._running) < AT_ONCE:
            if self._board.refuses(sanitize_line(self._waiting[0].title, 200)):
                self._board.notify(self._board.symbols.text(self.drop()), severity="error", markup=False, timeout=15)
                return
            act = self._waiting.popleft()
            self._started += 1
            number = self._started
            self._running.add(number)
            log = self._board.operate(act.title, act.words, partial(self._take, number, act), undoes=act.undoes)
            if log is None:  # the user is told why
                self._running.discard(number)

    def _take(self, number: int, act: Waiting, ended: Ended) -> None:
        self._running.discard(number)
        if act.ended is not None:
            act.ended(ended)
        self._start_next()
