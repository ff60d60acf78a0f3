"""Find former runs: by the code that they were sent, and by how they failed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from armada.store import runs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from armada.store.database import Database


def sent_code(database: Database, sha: str, *, most: int = 200) -> list[str]:
    """Return the ids of runs that were sent the code of this hash, newest first; only the last `most` runs count."""
    query = """SELECT run_id FROM (SELECT run_id, spec, created_at FROM runs ORDER BY created_at DESC LIMIT ?)
               WHERE json_extract(spec, '$.job.code') LIKE '%/' || ? ORDER BY created_at DESC"""
    return [row["run_id"] for row in database.connection.execute(query, (most, sha))]


def failed_with(database: Database, host: str, reasons: Sequence[str], *, since: float) -> list[runs.Run]:
    """Return a host's runs that failed for one of these reasons after `since`, oldest first."""
    marks = ", ".join("?" * len(reasons))
    query = f"""SELECT run_id FROM runs WHERE host = ? AND state = 'failed' AND reason IN ({marks})
                AND coalesce(ended_at, observed_at, created_at) > ? ORDER BY created_at, run_id"""  # noqa: S608  # only ?s
    rows = database.connection.execute(query, (host, *reasons, since)).fetchall()
    return [runs.find(database, row["run_id"]) for row in rows]
