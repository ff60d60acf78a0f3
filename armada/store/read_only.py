"""Read a store that takes no write from a copy in memory; changes to the copy are discarded."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import tempfile
import urllib.parse
from pathlib import Path
from typing import TYPE_CHECKING

from armada.errors import ConfigError, StoreDamaged, StoreUnwritable
from armada.store.database import UNREADABLE, Database, explain

if TYPE_CHECKING:
    from armada.paths import HomePaths


_ELSEWHERE = (None, "/dev/shm")  # noqa: S108  # a folder that only its owner may enter is made there
"""Where a store is copied that SQLite cannot read where it is: TMPDIR, which may be on the same full disk, and memory."""


def is_read_only(path: Path) -> bool:
    """Whether the store exists and this process cannot write it or its folder (SQLite creates files beside it)."""
    return path.is_file() and not (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK))


def unwritable(home: HomePaths) -> ConfigError:
    """Build the error for a command that must write to a home that cannot be written."""
    return ConfigError(
        "this home is not writable (a read-only file system, or another user's folder), and this command writes to it",
        path=home.state,
        hint="armada ps, show, logs, why, compare, diff, report and sync ls work without writing; for other commands set "
        "ARMADA_HOME, or make it writable",
    )


def open_copy(path: Path) -> Database:
    """Open a copy of a store; an older schema is migrated in the copy.

    Raises:
        ConfigError: The store cannot be read, or a newer armada wrote it.
        StoreDamaged: The file is not a store, or is damaged.
        StoreUnwritable: Its newest records are in a -wal that cannot be read; without them it would show an older state.
    """
    memory = sqlite3.connect(":memory:", isolation_level=None)
    # Another process's newest writes are in the -wal until a checkpoint merges them.
    # If SQLite cannot create its index of the -wal there, nobody writes: it can elsewhere.
    with contextlib.suppress(*UNREADABLE):
        _fill(memory, path, "mode=ro")
        return Database(path, connection=memory)
    wal, why = path.with_name(f"{path.name}-wal"), ""
    for folder in _ELSEWHERE:
        if not _has_bytes(wal):
            break
        try:
            with tempfile.TemporaryDirectory(prefix="armada-store-", dir=folder) as elsewhere:
                copy = Path(shutil.copy(path, elsewhere))
                shutil.copy(wal, elsewhere)
                _fill(memory, copy, "mode=rw")
            return Database(path, connection=memory)
        except OSError as error:
            why = error.strerror or str(error)
        except UNREADABLE as error:
            if isinstance(damaged := explain(error, path), StoreDamaged):
                raise damaged from error
            why = str(error)
    if _has_bytes(wal):
        raise StoreUnwritable(
            f"the newest records are in {wal.name}, which cannot be read there, nor from a copy of both ({why})",
            path=path,
            hint="set TMPDIR to a folder with room for a copy of the store, or free space on its disk",
        )
    try:
        _fill(memory, path, "immutable=1")  # the main file alone
        return Database(path, connection=memory)
    except UNREADABLE as error:
        raise explain(error, path) or ConfigError(f"the store cannot be read ({error})", path=path) from error


def _has_bytes(path: Path) -> bool:
    """Whether a file is there and not empty."""
    try:
        return path.stat().st_size > 0
    except OSError:
        return False


def _fill(memory: sqlite3.Connection, path: Path, mode: str) -> None:
    """Copy a store into memory."""
    place = f"file:{urllib.parse.quote(str(path))}?{mode}"
    with contextlib.closing(sqlite3.connect(place, uri=True)) as source:
        source.backup(memory)
