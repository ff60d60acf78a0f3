"""What breaks off: programs between two of their steps on a disk, homes that wait for an answer, writes that no disk had yet."""

from __future__ import annotations

import fcntl
import functools
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.simulation.disks import WrittenBack

STEPS = ("rename", "replace", "link", "unlink", "rmdir")
"""What changes a folder, and cannot be half done."""


class Killed(BaseException):  # no error of anybody's
    """The program that computes now is no more."""


class Waits(Killed):
    """It waits for a lock that the program holds which it was begun beside: here it is ended instead, as if somebody lost patience."""


def at_once(real: Callable[[Any, int], None], descriptor: Any, how: int) -> None:
    """Stands in for `fcntl.flock`: in one thread nobody can wait for whom it interrupted.

    Raises:
        Waits: The lock is held.
        BlockingIOError: The same, and the caller would not have waited.
    """
    try:
        real(descriptor, how | fcntl.LOCK_NB)
    except BlockingIOError:
        if how & fcntl.LOCK_NB:
            raise
        raise Waits from None


class Breaking:
    """Counts down the steps of whatever computes, and the questions that homes ask.

    Args:
        disks: Told of every step, because a power cut may take it back.
    """

    def __init__(self, disks: WrittenBack) -> None:
        self._disks = disks
        self.doom: int | None = None
        self.depth = 0
        self._meanwhile: tuple[int, Callable[[], None]] | None = None
        self._at_step: tuple[int, Callable[[], None]] | None = None

    def calm(self) -> None:
        self.doom = self._meanwhile = self._at_step = None

    def step(self) -> None:
        """A program does one thing that others can see; or it is ended just before."""
        if self.doom is not None and self.depth:
            self.doom -= 1
            if self.doom <= 0:
                self.doom = None
                raise Killed
        if self._at_step is not None and self.depth:
            left, what = self._at_step
            self._at_step = (left - 1, what) if left > 1 else None
            if self._at_step is None:
                what()

    def interrupt_with(self, after: int, what: Callable[[], None], *, at_step: bool) -> None:
        """Let something happen while a home waits for the answer to one of its next questions, or just before a step."""
        if at_step:
            self._at_step = (after, what)
        else:
            self._meanwhile = (after, what)

    def question(self) -> None:
        if self._meanwhile is None or not self.depth:
            return
        left, what = self._meanwhile
        self._meanwhile = (left - 1, what) if left > 1 else None
        if self._meanwhile is None:
            what()

    def stand_ins(self) -> list[tuple[Any, str, Any]]:
        waiting = (fcntl, "flock", functools.partial(at_once, fcntl.flock))
        making = (os, "mkdir", self._noted(os.mkdir))
        return [waiting, making, *((os, name, self._counted(self._noted(getattr(os, name)))) for name in STEPS)]

    def _counted(self, real: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(real)
        def stepping(*words: Any, **more: Any) -> Any:
            self.step()
            return real(*words, **more)

        return stepping

    def _noted(self, real: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(real)
        def noting(*words: Any, **more: Any) -> Any:
            take_back = self._disks.way_back(real.__name__, words, more)
            done = real(*words, **more)
            if take_back is not None:
                self._disks.note(take_back)
            return done

        return noting
