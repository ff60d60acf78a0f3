"""What disks have for certain, and what a power cut takes: bytes of files, and names in folders, that nobody forced out."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from tests.simulation import folders

_DISK = f"{os.sep}disk{os.sep}armada{os.sep}"
"""Where the disks of hosts are; a folder outside keeps all of its names."""


@dataclass(frozen=True)
class Step:
    """One change of a folder that its disk may not have yet."""

    folder: str
    take_back: Callable[[], None]


class WrittenBack:
    """How much of each file a disk has for certain: what was there when it was last forced out, or had the time to get there.

    A folder's changes get to the disk in their order, and for certain when somebody forces the folder out. Other folders and the
    bytes of files have an order of their own.
    """

    def __init__(self) -> None:
        self._sizes: dict[tuple[int, int], int] = {}
        self._steps: list[Step] = []

    def stand_ins(self) -> list[tuple[Any, str, Any]]:
        return [(os, "fsync", self._fsync)]

    def _fsync(self, descriptor: int) -> None:
        self._note_size(os.fstat(descriptor))
        if self._steps:
            forced = os.readlink(f"/proc/self/fd/{descriptor}")
            self._steps = [step for step in self._steps if step.folder != forced]

    def _note_size(self, status: os.stat_result) -> None:
        self._sizes[status.st_dev, status.st_ino] = status.st_size

    def settle(self, folder: Path) -> None:
        """There was time enough for everything below a folder."""
        for path in _files(folder):
            self._note_size(path.stat())
        self._steps = [step for step in self._steps if not _is_below(step.folder, folder)]

    def tear(self, folder: Path, chance: Random) -> None:
        """Below a folder, files and folders lose what the disk did not have, or keep it by luck."""
        for path in _files(folder):
            status = path.stat()
            kept = self._sizes.get((status.st_dev, status.st_ino), 0)
            if kept < status.st_size and chance.random() < 0.5:
                path.chmod(0o600)
                os.truncate(path, chance.randint(kept, status.st_size - 1))
                os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
                path.chmod(status.st_mode)
        self._forget_names(folder, chance)
        self.settle(folder)

    def _forget_names(self, folder: Path, chance: Random) -> None:
        mine = [step for step in self._steps if _is_below(step.folder, folder)]
        counts: dict[str, int] = {}
        for step in mine:
            counts[step.folder] = counts.get(step.folder, 0) + 1
        lost = {name: chance.randint(0, counts[name]) if chance.random() < 0.5 else 0 for name in sorted(counts)}
        for step in reversed(mine):
            if lost[step.folder]:
                lost[step.folder] -= 1
                # What it would take back hangs on another folder, which kept its own.
                with contextlib.suppress(OSError):
                    step.take_back()

    # Steps.

    def note(self, step: Step) -> None:
        self._steps.append(step)

    def way_back(self, verb: str, words: tuple[Any, ...], more: dict[str, Any]) -> Step | None:
        """How a step that is about to be done would be taken back; None where no disk of a host is concerned."""
        if verb in ("rename", "replace", "link"):
            path = _absolute(words[1], more.get("dst_dir_fd"))
            if _DISK not in path:
                return None
            source = _absolute(words[0], more.get("src_dir_fd"))
            return Step(os.path.dirname(path), _unlink(path) if verb == "link" else _unrename(source, path))
        path = _absolute(words[0], more.get("dir_fd"))
        return Step(os.path.dirname(path), _undo(verb, path)) if _DISK in path else None


def _undo(verb: str, path: str) -> Callable[[], None]:
    if verb == "mkdir":
        return lambda: shutil.rmtree(path)
    if verb == "rmdir":
        return lambda: os.mkdir(path, 0o700)
    return _restorer(path)


def _unlink(path: str) -> Callable[[], None]:
    return lambda: os.unlink(path)


def _unrename(source: str, target: str) -> Callable[[], None]:
    bring_back = _restorer(target)

    def take_back() -> None:
        os.rename(target, source)
        bring_back()

    return take_back


def _restorer(path: str) -> Callable[[], None]:
    """Puts a file there again as it is now; nothing where there is none."""
    try:
        status = os.lstat(path)
    except OSError:
        return lambda: None
    link = os.readlink(path) if stat.S_ISLNK(status.st_mode) else None
    content = folders.read(path) if stat.S_ISREG(status.st_mode) else None

    def put_back() -> None:
        if link is not None:
            os.symlink(link, path)
        elif content is not None:
            Path(path).write_bytes(content)
            os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
            os.chmod(path, status.st_mode)

    return put_back


def _absolute(path: Any, folder: int | None) -> str:
    name = os.fsdecode(path)
    return name if folder is None else os.path.join(os.readlink(f"/proc/self/fd/{folder}"), name)


def _is_below(folder: str, top: Path) -> bool:
    return folder == str(top) or folder.startswith(f"{top}{os.sep}")


def _files(folder: Path) -> Iterator[Path]:
    for at, _, names in os.walk(folder):
        yield from (path for name in sorted(names) if (path := Path(at, name)).is_file() and not path.is_symlink())
