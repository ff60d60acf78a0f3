"""Handle the store as a file: lock it, copy it, or replace it while keeping the former one beside it."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import time
from pathlib import Path
from typing import TYPE_CHECKING

from armada.errors import Conflict
from armada.foundation.atomic_write import fsync
from armada.foundation.locks import try_lock_range

if TYPE_CHECKING:
    from collections.abc import Iterator

KEPT = ".damaged-"
"""Stands between the store's name and the time at which it was put aside."""

# SQLite's own lock bytes (https://www.sqlite.org/fileformat.html): every process that has a WAL store open holds the
# shared ones.
_SHARED_FIRST = 0x40000000 + 2
_SHARED_SIZE = 510
_PIECE_BYTES = 1 << 20


@contextlib.contextmanager
def alone(path: Path) -> Iterator[int]:
    """Lock every other program out of a store, whatever state the store is in, and yield a descriptor to read it.

    Do not close any other descriptor of the file inside: the kernel would release the lock with it.

    Raises:
        Conflict: Another program has the store open.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        if not try_lock_range(descriptor, _SHARED_FIRST, _SHARED_SIZE):
            raise Conflict(
                f"another program has opened the store, {path}",
                hint=f"end it (fuser {path} names it), then run the command again",
            )
        yield descriptor
    finally:
        os.close(descriptor)


def copy(descriptor: int, path: Path, target: Path) -> None:
    """Copy a store locked by `alone`, including its newest writes, which are in the -wal file beside it."""
    with target.open("wb") as out:
        offset = 0
        while piece := os.pread(descriptor, _PIECE_BYTES, offset):
            out.write(piece)
            offset += len(piece)
    wal = _beside(path, "-wal")
    if wal.exists():
        shutil.copyfile(wal, _beside(target, "-wal"))


def back_up(path: Path, target: Path) -> None:
    """Copy an undamaged store with SQLite's backup API; other programs may have it open."""
    with contextlib.closing(sqlite3.connect(path)) as source, contextlib.closing(sqlite3.connect(target)) as copied:
        source.backup(copied)


def kept_aside(path: Path) -> list[Path]:
    """Return the damaged stores that were put aside, oldest first."""
    found = path.parent.glob(f"{path.name}{KEPT}*")
    return sorted(file for file in found if not file.name.endswith(("-wal", "-shm", "-journal")))


def begun_aside(path: Path) -> Path | None:
    """Return the name under which an interrupted `replace` already put this file aside, or None."""
    return next((file for file in kept_aside(path) if file.samefile(path)), None)


def replace(path: Path, new: Path) -> Path:
    """Replace a damaged store by a new one. The damaged one is kept under another name, together with its -wal.

    If the process is killed in between, the damaged store still exists under both names (`begun_aside`), and a second
    call completes the replacement.

    Returns:
        The name under which the damaged store is kept.
    """
    aside = begun_aside(path)
    if aside is None:
        stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
        names = (path.with_name(f"{path.name}{KEPT}{stamp}{more}") for more in ("", *(f".{n}" for n in range(2, 1000))))
        aside = next(name for name in names if not name.exists())
        os.link(path, aside)
    for suffix in ("-wal", "-shm", "-journal"):
        if _beside(path, suffix).exists():
            _beside(path, suffix).rename(_beside(aside, suffix))
    new.replace(path)
    fsync(path.parent)
    return aside


def _beside(path: Path, suffix: str) -> Path:
    return path.with_name(f"{path.name}{suffix}")
