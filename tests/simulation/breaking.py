"""What breaks off: programs between two of their steps on a disk, homes that wait for an answer, writes that no disk had yet."""

from __future__ import annotations

import fcntl
import functools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

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


class WrittenBack:
    """How much of each file a disk has for certain: what was there when it was last forced out, or had the time to get there."""

    def __init__(self) -> None:
        self._sizes: dict[tuple[int, int], int] = {}

    def stand_ins(self) -> list[tuple[Any, str, Any]]:
        return [(os, "fsync", self._fsync)]

    def _fsync(self, descriptor: int) -> None:
        self._note(os.fstat(descriptor))

    def _note(self, status: os.stat_result) -> None:
        self._sizes[status.st_dev, status.st_ino] = status.st_size

    def settle(self, folder: Path) -> None:
        """There was time enough for everything below a folder."""
        for path in _files(folder):
            self._note(path.stat())

    def tear(self, folder: Path, chance: Random) -> None:
        """Below a folder, files lose what the disk did not have, or keep it by luck."""
        for path in _files(folder):
            status = path.stat()
            kept = self._sizes.get((status.st_dev, status.st_ino), 0)
            if kept < status.st_size and chance.random() < 0.5:
                path.chmod(0o600)
                os.truncate(path, chance.randint(kept, status.st_size - 1))
                os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
                path.chmod(status.st_mode)
        self.settle(folder)


def _files(folder: Path) -> Iterator[Path]:
    for at, _, names in os.walk(folder):
        yield from (path for name in sorted(names) if (path := Path(at, name)).is_file() and not path.is_symlink())


class Breaking:
    """Counts down the steps of whatever computes, and the questions that homes ask."""

    def __init__(self) -> None:
        self.doom: int | None = None
        self.depth = 0
        self._meanwhile: tuple[int, Callable[[], None]] | None = None

    def calm(self) -> None:
        self.doom = self._meanwhile = None

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
        waiting = (fcntl, "flock", functools.partial(at_once, fcntl.flock))
        return [waiting, *((os, name, self._counted(getattr(os, name))) for name in STEPS)]

    def _counted(self, real: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(real)
        def stepping(*words: Any, **more: Any) -> Any:
            self.step()
            return real(*words, **more)

        return stepping
