"""Runs for shell completion. Read without `Database`, which takes longer to import than completion may take."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_MOST = 500


def read_candidates(store: Path, *, active: bool) -> list[tuple[object, object, object]]:
    """Return the id, state and host of the newest runs, newest first; an empty list if the store cannot be read.

    Args:
        store: The file; it is only read.
        active: Leave out runs that have ended.
    """
    import sqlite3
    from urllib.parse import quote

    condition = "state NOT IN ('succeeded', 'failed', 'cancelled')" if active else "1"
    query = f"SELECT run_id, state, host FROM runs WHERE {condition} ORDER BY created_at DESC LIMIT {_MOST}"  # noqa: S608  # ours
    try:
        with contextlib.closing(
            sqlite3.connect(f"file:{quote(str(store))}?mode=ro", uri=True, timeout=0.05)
        ) as connection:
            return connection.execute(query).fetchall()
    except sqlite3.Error:
        return []
