"""Find out whether another armada renewed a store that is open here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from armada.store.database import MIGRATIONS

if TYPE_CHECKING:
    from armada.store.database import Database

KNOWN = len(MIGRATIONS)
"""The newest version that this armada reads right."""


def version_of(database: Database) -> int:
    """Return the version that an open store has now."""
    return int(database.connection.execute("PRAGMA user_version").fetchone()[0])
