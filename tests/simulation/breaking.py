"""Programs that are ended between two of their steps on a disk, and what happens while one of them waits for an answer."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any

STEPS = ("rename", "replace", "link", "unlink", "rmdir")
"""What changes a folder, and cannot be half done."""


class Killed(BaseException):  # no error of anybody's
    """The program that computes now is no more."""


class Breaking:
    """Counts down the steps of whatever computes, and the questions that homes ask."""

    def __init__(self) -> None:
        self.doom: int | None = None
        self.depth = 0
        self._meanwhile: tuple[int, Callable[[], None]] | None = None

    def step(self) -> None:
        """A program does one thing that others can see; or it is ended just before."""
        if self.doom is not None and self.depth:
            self.doom -= 1
            if self.doom <= 0:
                self.doom = None
                raise Killed

    def interrupt_with(self, after: int, what: Callable[[], None]) -> None:
        """Let something happen while a home waits for the answer to one of its next questions."""
        self._meanwhile = (after, what)

    def question(self) -> None:
        if self._meanwhile is None or not self.depth:
            return
        left, what = self._meanwhile
        self._meanwhile = (left - 1, what) if left > 1 else None
        if self._meanwhile is None:
            what()

    def stand_ins(self) -> list[tuple[Any, str, Any]]:
        return [(os, name, self._counted(getattr(os, name))) for name in STEPS]

    def _counted(self, real: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(real)
        def stepping(*words: Any, **more: Any) -> Any:
            self.step()
            return real(*words, **more)

        return stepping
