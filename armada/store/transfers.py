"""Transfers of checkpoints: their progress, or why they wait."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from armada.store.database import Database

State = Literal["waiting", "running", "done", "failed", "paused"]


@dataclass(frozen=True, slots=True)
class Transfer:
    """One row. A `paused` transfer resumes automatically; a `failed` one at `next_try_at`, or only on request if that is None."""

    run_id: str
    digest: str
    state: State
    done_bytes: int
    total_bytes: int | None
    rate: float | None
    tries: int
    reason: str | None
    next_try_at: float | None
    started_at: float | None
    updated_at: float | None
    ended_at: float | None
    step: int | None = None
    """Of the checkpoint; known for those that are under way."""


def of_run(database: Database, run_id: str) -> dict[str, Transfer]:
    rows = database.connection.execute("SELECT * FROM transfers WHERE run_id = ?", (run_id,))
    return {row["digest"]: Transfer(**dict(row)) for row in rows}


def under_way(database: Database) -> list[Transfer]:
    """Return every transfer that is not done, oldest first."""
    rows = database.connection.execute(
        """SELECT transfers.*, checkpoints.step FROM transfers LEFT JOIN checkpoints USING (run_id, digest)
           WHERE state <> 'done' ORDER BY started_at"""
    )
    return [Transfer(**dict(row)) for row in rows]


LIVES_S = 30.0
"""A running transfer is updated every second; after this many seconds without an update its process is gone."""


def coming_bytes(database: Database, *, but: str) -> int:
    """Return how many bytes the running transfers of all processes will still write to home's disk.

    Args:
        database: The store.
        but: The digest of the transfer to leave out.
    """
    (found,) = database.connection.execute(
        """SELECT coalesce(sum(max(0, total_bytes - done_bytes)), 0) FROM transfers
           WHERE state = 'running' AND digest <> ? AND abs(updated_at - ?) < ?""",
        (but, time.time(), LIVES_S),
    ).fetchone()
    return int(found)


def begin(database: Database, run_id: str, digest: str, total_bytes: int) -> None:
    now = time.time()
    with database.transaction() as connection:
        connection.execute(
            """INSERT INTO transfers (run_id, digest, state, total_bytes, started_at, updated_at) VALUES (?, ?, 'running', ?, ?, ?)
               ON CONFLICT (run_id, digest) DO UPDATE SET state = 'running', total_bytes = excluded.total_bytes,
               done_bytes = 0, rate = NULL, started_at = excluded.started_at, updated_at = excluded.updated_at, ended_at = NULL""",
            (run_id, digest, total_bytes, now, now),
        )


def progress(database: Database, run_id: str, digest: str, done_bytes: int, rate: float | None) -> None:
    with database.transaction() as connection:
        connection.execute(
            "UPDATE transfers SET done_bytes = ?, rate = ?, updated_at = ? WHERE run_id = ? AND digest = ?",
            (done_bytes, rate, time.time(), run_id, digest),
        )


def finish(database: Database, run_id: str, digest: str, size_bytes: int) -> None:
    now = time.time()
    with database.transaction() as connection:
        connection.execute(
            """INSERT INTO transfers (run_id, digest, state, done_bytes, total_bytes, updated_at, ended_at)
               VALUES (?, ?, 'done', ?, ?, ?, ?) ON CONFLICT (run_id, digest) DO UPDATE SET state = 'done',
               done_bytes = excluded.done_bytes, reason = NULL, next_try_at = NULL, tries = 0, updated_at = excluded.updated_at,
               ended_at = excluded.ended_at""",
            (run_id, digest, size_bytes, size_bytes, now, now),
        )


def give_up(
    database: Database, run_id: str, digest: str, state: State, reason: str, *, next_try_at: float | None
) -> None:
    """Record why a transfer ended without its checkpoint; the received bytes stay in staging."""
    now = time.time()
    with database.transaction() as connection:
        connection.execute(
            """INSERT INTO transfers (run_id, digest, state, tries, reason, next_try_at, updated_at, ended_at)
               VALUES (?, ?, ?, 1, ?, ?, ?, ?) ON CONFLICT (run_id, digest) DO UPDATE SET
               state = excluded.state, tries = tries + 1, reason = excluded.reason,
               next_try_at = excluded.next_try_at, updated_at = excluded.updated_at, ended_at = excluded.ended_at""",
            (run_id, digest, state, reason, next_try_at, now, now),
        )


def forget(database: Database, run_id: str, digest: str) -> None:
    with database.transaction() as connection:
        connection.execute("DELETE FROM transfers WHERE run_id = ? AND digest = ?", (run_id, digest))
