"""Find out whether another armada renewed a store that is open here."""

from __future__ import annotations

import contextlib
import sqlite3
from typing import TYPE_CHECKING

from armada.store.database import MIGRATIONS

if TYPE_CHECKING:
    from pathlib import Path

    from armada.store.database import Database

KNOWN = len(MIGRATIONS)
"""The newest version that this armada reads right."""


def version_of(database: Database) -> int:
    """Return the version that an open store has now."""
    return int(database.connection.execute("PRAGMA user_version").fetchone()[0])


def version_before_opening(path: Path) -> int | None:
    """Return the version of a store without migrating it.

    Returns:
        None if there is no store, or it cannot be read: opening it says why.
    """
    try:
        with contextlib.closing(
            sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True, timeout=1.0)
        ) as connection:
            return int(connection.execute("PRAGMA user_version").fetchone()[0])
    except sqlite3.DatabaseError:
        return None
