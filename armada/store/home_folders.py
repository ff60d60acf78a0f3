"""Records of folders at home: the mark of each, and which published checkpoint was read and found wrong.

Paths are relative to the home that the store belongs to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from armada.store import places

if TYPE_CHECKING:
    from pathlib import Path

    from armada.store.database import Database


def marks(database: Database) -> dict[str, str]:
    """Return the ids of all marked folders, by path."""
    return {row["path"]: row["mark"] for row in database.connection.execute("SELECT path, mark FROM home_folders")}


def mark_of(database: Database, path: str) -> str | None:
    """Return the id of a marked folder; None if it was not marked."""
    row = database.connection.execute("SELECT mark FROM home_folders WHERE path = ?", (path,)).fetchone()
    return None if row is None else str(row["mark"])


def record_mark(database: Database, path: str, mark: str, run_id: str | None) -> None:
    """Record that a folder has a mark. With the run, its folders are forgotten; None: it belongs to all runs."""
    with database.transaction() as connection:
        if run_id is None or connection.execute("SELECT 1 FROM runs WHERE run_id = ?", (run_id,)).fetchone():
            query = "INSERT OR REPLACE INTO home_folders (path, mark, run_id) VALUES (?, ?, ?)"
            connection.execute(query, (path, mark, run_id))


def record_wrong(database: Database, run_id: str, place: Path, look: str) -> None:
    """Record what a published checkpoint looked like when it was read and was not as it came."""
    with database.transaction() as connection:
        query = "INSERT OR REPLACE INTO wrong_home (path, look, run_id) VALUES (?, ?, ?)"
        connection.execute(query, (places.write(database, place), look, run_id))


def is_known_wrong(database: Database, place: Path, look: str) -> bool:
    """Whether a published checkpoint was read and was wrong when it looked like this."""
    query = "SELECT 1 FROM wrong_home WHERE path = ? AND look = ?"
    return database.connection.execute(query, (places.write(database, place), look)).fetchone() is not None
