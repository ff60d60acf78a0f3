"""Runs that the store did not know, and that were found on a host or at home."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from armada.foundation.sanitize import sanitize_line
from armada.store.chains import relations
from armada.store.values import decode
from armada.verdicts.states import STATES

if TYPE_CHECKING:
    from armada.store.database import Database

_FOUND = "it was found by armada recover"
NO_HOST = "?"
"""The host of a run of which only checkpoints at home are left; no host can have this name."""


def adopt(
    database: Database,
    *,
    run_id: str,
    name: str,
    host: str,
    task: str,
    spec: dict[str, Any],
    created_at: float,
) -> bool:
    """Record a run that was found on a host or at home. A run known only from files at home gets its plan.

    Returns:
        Whether the run or its plan was new.
    """
    with database.transaction() as connection:
        old = connection.execute("SELECT host FROM runs WHERE run_id = ?", (run_id,)).fetchone()
        if old is not None and (old["host"] != NO_HOST or host == NO_HOST):
            return False
        connection.execute(
            """INSERT INTO runs (run_id, name, host, task, spec, state, because, created_at, sweep, cell, follows)
               VALUES (?, ?, ?, ?, ?, 'unknown', ?, ?, ?, ?, ?)
               ON CONFLICT (run_id) DO UPDATE SET name = excluded.name, host = excluded.host, task = excluded.task,
               spec = excluded.spec, created_at = excluded.created_at, sweep = excluded.sweep, cell = excluded.cell,
               follows = excluded.follows""",
            (run_id, name, host, task, json.dumps(spec), _FOUND, created_at, *relations(database, spec)),
        )
        return True


def retell(database: Database, run_id: str) -> None:
    """Rebuild a run's transitions from the state events of its host, with the times at which these were written."""
    told = database.connection.execute(
        "SELECT time, data FROM events WHERE run_id = ? AND kind = 'state' AND time BETWEEN 0 AND ? ORDER BY seq",
        (run_id, time.time() + 86_400.0),
    ).fetchall()
    run = database.connection.execute("SELECT * FROM runs WHERE run_id = ?", (run_id,)).fetchone()
    rows: list[tuple[Any, ...]] = [(run_id, run["created_at"], "preparing", None, None)]
    for time_, data in told:
        event = decode(dict, data, f"the column data of an event of {run_id}")
        if event.get("state") not in STATES:
            continue
        words = [None if event.get(key) is None else sanitize_line(event[key]) for key in ("reason", "message")]
        rows.append((run_id, time_, event["state"], *words))
    if rows[-1][2] != run["state"]:
        rows.append((run_id, run["observed_at"] or run["created_at"], run["state"], run["reason"], run["message"]))
    with database.transaction() as connection:
        connection.execute("DELETE FROM transitions WHERE run_id = ?", (run_id,))
        connection.executemany("INSERT INTO transitions VALUES (?, ?, ?, ?, ?)", rows)
