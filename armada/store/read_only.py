"""Read a store that is not writable from a copy in memory; changes to the copy are discarded."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import urllib.parse
from typing import TYPE_CHECKING

from armada.errors import ArmadaError, ConfigError
from armada.store.database import UNREADABLE, Database, explain

if TYPE_CHECKING:
    from pathlib import Path


def is_read_only(path: Path) -> bool:
    """Whether the store exists and this process cannot write it or its folder (SQLite creates files beside it)."""
    return path.is_file() and not (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK))


def open_copy(path: Path) -> Database:
    """Open a copy of a store; an older schema is migrated in the copy.

    Raises:
        ConfigError: The store cannot be read, or a newer armada wrote it.
        StoreDamaged: The file is not a store, or is damaged.
    """
    memory = sqlite3.connect(":memory:", isolation_level=None)
    problem: ArmadaError | None = None
    # Another process's newest writes are in the -wal until a checkpoint merges them. If SQLite cannot create its index
    # of the -wal, nobody writes here, and the main file alone is read: `immutable`.
    for mode in ("mode=ro", "immutable=1"):
        try:
            with contextlib.closing(
                sqlite3.connect(f"file:{urllib.parse.quote(str(path))}?{mode}", uri=True)
            ) as source:
                source.backup(memory)
            return Database(path, connection=memory)
        except UNREADABLE as error:
            problem = explain(error, path) or ConfigError(f"the store cannot be read ({error})", path=path)
    assert problem is not None  # noqa: S101  # the loop returns, or sets it
    raise problem
