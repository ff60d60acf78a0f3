"""Operations: the user's long-running commands, each with its process."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from armada.store.values import decode

if TYPE_CHECKING:
    import sqlite3

    from armada.store.database import Database

KEPT_S = 30 * 86_400.0
"""How long ended operations are kept as history, in seconds."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One row. `state` is running, done, failed or interrupted; `rate` is in bytes per second.

    A `running` operation whose process (`pid`, `start_time`, `boot_id`) is gone was interrupted; see
    `armada.store.running_operations.broken`.
    """

    id: str
    kind: str
    run_id: str | None
    host: str | None
    argv: tuple[str, ...]
    pid: int
    start_time: str | None
    boot_id: str | None
    state: str
    step: str | None
    message: str | None
    done_bytes: int | None
    total_bytes: int | None
    rate: float | None
    started_at: float
    updated_at: float
    ended_at: float | None
    exit_code: int | None
    by: str | None = None
    """What asked for it: `api` or `mcp`; None for a command."""


def begin(
    database: Database,
    *,
    id: str,  # noqa: A002  # the column's name
    kind: str,
    run_id: str | None,
    host: str | None,
    argv: tuple[str, ...],
    pid: int,
    start_time: str | None,
    boot_id: str | None,
    by: str | None = None,
) -> None:
    """Record an operation as running, and delete those that ended long ago."""
    now = time.time()
    with database.transaction() as connection:
        connection.execute("DELETE FROM operations WHERE ended_at < ?", (now - KEPT_S,))
        connection.execute(
            """INSERT INTO operations (id, kind, run_id, host, argv, pid, start_time, boot_id, state, started_at, updated_at, "by")
               VALUES (?, ?, ?, ?, ?, ?, ?, ?, 'running', ?, ?, ?)""",
            (id, kind, run_id, host, json.dumps(argv), pid, start_time, boot_id, now, now, by),
        )


def advance(database: Database, id: str, **columns: Any) -> None:  # noqa: A002
    """Set columns of a running operation; an operation that another process ended stays unchanged."""
    columns["updated_at"] = time.time()
    names = ", ".join(f"{name} = ?" for name in columns)
    with database.transaction() as connection:
        connection.execute(
            f"UPDATE operations SET {names} WHERE id = ? AND state = 'running'",  # noqa: S608  # names are the callers'
            (*columns.values(), id),
        )


def finish(
    database: Database,
    id: str,  # noqa: A002
    state: str,
    *,
    message: str | None = None,
    exit_code: int | None = None,
) -> None:
    """End an operation as `done`, `failed` or `interrupted`; the first end counts."""
    now = time.time()
    with database.transaction() as connection:
        connection.execute(
            """UPDATE operations SET state = ?, message = coalesce(?, message), exit_code = ?, ended_at = ?, updated_at = ?
               WHERE id = ? AND state = 'running'""",
            (state, message, exit_code, now, now, id),
        )


def find(database: Database, id: str) -> Operation | None:  # noqa: A002
    row = database.connection.execute("SELECT * FROM operations WHERE id = ?", (id,)).fetchone()
    return _operation(row) if row is not None else None


def running(database: Database) -> list[Operation]:
    """Return the operations recorded as running, oldest first; their processes may be gone."""
    rows = database.connection.execute("SELECT * FROM operations WHERE state = 'running' ORDER BY started_at, id")
    return [_operation(row) for row in rows]


def on_host(database: Database, host: str) -> list[Operation]:
    """Return the recorded operations on a host, ended or not, oldest first."""
    rows = database.connection.execute("SELECT * FROM operations WHERE host = ? ORDER BY started_at, id", (host,))
    return [_operation(row) for row in rows]


def of_run(database: Database, run_id: str, *, kind: str) -> list[Operation]:
    """Return the operations of one kind on a run, newest first."""
    rows = database.connection.execute(
        "SELECT * FROM operations WHERE kind = ? AND run_id = ? ORDER BY started_at DESC, id", (kind, run_id)
    )
    return [_operation(row) for row in rows]


def done(database: Database, kind: str, *, since: float) -> list[Operation]:
    """Return the operations of one kind that ended as `done` after `since`, oldest first."""
    rows = database.connection.execute(
        "SELECT * FROM operations WHERE kind = ? AND state = 'done' AND started_at > ? ORDER BY started_at, id",
        (kind, since),
    )
    return [_operation(row) for row in rows]


def recent(database: Database, limit: int = 100) -> list[Operation]:
    """Return the newest operations first, ended or not."""
    rows = database.connection.execute("SELECT * FROM operations ORDER BY started_at DESC, id LIMIT ?", (limit,))
    return [_operation(row) for row in rows]


def _operation(row: sqlite3.Row) -> Operation:
    values = dict(row)
    values["argv"] = tuple(decode(list, values["argv"], f"the column argv of {row['id']}"))
    return Operation(**values)
