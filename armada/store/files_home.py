"""Verified files of published checkpoints, by their SHA-256: what need not travel a second time."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from armada.store.database import Database


def record(database: Database, files: Iterable[tuple[str, Path, int]]) -> None:
    """Remember (sha256, path, size in bytes) of files that were just verified."""
    with database.transaction() as connection:
        connection.executemany(
            "INSERT OR REPLACE INTO files_home (sha256, path, size) VALUES (?, ?, ?)",
            [(sha256, str(path), size) for sha256, path, size in files],
        )


def find(database: Database, sha256: str) -> list[Path]:
    rows = database.connection.execute("SELECT path FROM files_home WHERE sha256 = ?", (sha256,))
    return [Path(row["path"]) for row in rows]


def forget(database: Database, path: Path) -> None:
    """Forget a file, or all files below a folder."""
    below = str(path).replace("\\", "\\\\").replace("%", r"\%").replace("_", r"\_") + "/%"
    with database.transaction() as connection:
        connection.execute(r"DELETE FROM files_home WHERE path = ? OR path LIKE ? ESCAPE '\'", (str(path), below))
