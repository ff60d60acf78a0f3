"""Read a store that is not writable: from a copy in memory, whose changes are discarded."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import urllib.parse
from typing import TYPE_CHECKING

from armada.errors import ArmadaError, ConfigError
from armada.store.database import Database, explain

if TYPE_CHECKING:
    from pathlib import Path


def is_read_only(path: Path) -> bool:
    """Whether a store is there, and this process may write it not, or not into its folder (SQLite makes files beside it)."""
    return path.is_file() and not (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK))


def open_copy(path: Path) -> Database:
    """Open a copy of a store; an older one is brought up to date in the copy.

    Raises:
        ConfigError: It cannot be read, or a newer armada wrote it.
        StoreDamaged: It is no store, or a damaged one.
    """
    memory = sqlite3.connect(":memory:", isolation_level=None)
    problem: ArmadaError | None = None
    # What another process writes lies beside the store until it is merged. Where SQLite cannot make its index of that, nobody
    # writes here, and the store alone is read: `immutable`.
    for mode in ("mode=ro", "immutable=1"):
        try:
            with contextlib.closing(
                sqlite3.connect(f"file:{urllib.parse.quote(str(path))}?{mode}", uri=True)
            ) as source:
                source.backup(memory)
            return Database(path, connection=memory)
        except sqlite3.DatabaseError as error:
            problem = explain(error, path) or ConfigError(f"the store cannot be read ({error})", path=path)
    assert problem is not None  # noqa: S101  # the loop returns, or sets it
    raise problem
