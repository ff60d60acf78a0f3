"""When each run was last synced, when its next sync is due, and since when its syncs fail."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from armada.verdicts.states import ENDED

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from armada.store.database import Database

PUT_OFF_S = 30.0
"""Seconds before a sync is tried again that was put off."""


@dataclass(frozen=True, slots=True)
class RunSync:
    """One row, or the defaults for a run without one. Times are unix seconds.

    `reason`: why its syncs fail; without a failure, why the last one was put off. `left_there`: how many things the host
    had that no sync brings, such as files that no `sync.outputs` names; None if that is not known.
    """

    run_id: str
    last_at: float | None = None
    next_due_at: float | None = None
    requested_at: float | None = None
    failing_since: float | None = None
    failures: int = 0
    reason: str | None = None
    final_done: bool = False
    left_there: int | None = None

    def is_put_off(self, now: float) -> bool:
        """Whether its sync was put off, and is not due yet. A time that is too far ahead comes from a wrong clock."""
        until = self.next_due_at
        return self.reason is not None and not self.failures and until is not None and now < until <= now + PUT_OFF_S


def find(database: Database, run_id: str) -> RunSync:
    row = database.connection.execute("SELECT * FROM run_sync WHERE run_id = ?", (run_id,)).fetchone()
    return _row(row) if row is not None else RunSync(run_id)


def every(database: Database) -> dict[str, RunSync]:
    return {row["run_id"]: _row(row) for row in database.connection.execute("SELECT * FROM run_sync")}


def _row(row: object) -> RunSync:
    values = dict(row)  # type: ignore[call-overload]  # sqlite3.Row is a mapping in all but name
    return RunSync(**{**values, "final_done": bool(values["final_done"])})


def request(database: Database, run_ids: Iterable[str], now: float) -> None:
    """Request a sync as soon as possible; `sync now` uses it while a daemon runs."""
    with database.transaction() as connection:
        connection.executemany(
            """INSERT INTO run_sync (run_id, requested_at) VALUES (?, ?)
               ON CONFLICT (run_id) DO UPDATE SET requested_at = excluded.requested_at""",
            [(run_id, now) for run_id in run_ids],
        )


def succeeded(
    database: Database,
    run_id: str,
    *,
    began: float,
    next_due_at: float | None,
    final_of: int | None = None,
    on_host: Collection[str] | None = None,
    left_there: int | None = None,
) -> bool:
    """Record a complete sync. A request made after the sync began is kept. After the final sync, none is due.

    Args:
        database: The store.
        run_id: The run.
        began: When the sync began, unix time.
        next_due_at: When the next one is due, unix time; ignored for the final sync.
        final_of: The submission whose end was seen before everything was fetched; None if more may come.
        on_host: The digests on the host from which that was concluded; None to rely on the store.
        left_there: How many things stay on the host that no sync brings; None if the host did not say.

    Returns:
        Whether this was the final sync. It is not if the run was submitted again in the meantime, or if somebody else
        found another checkpoint on the host.
    """
    with database.transaction() as connection:
        row = connection.execute("SELECT state, submission FROM runs WHERE run_id = ?", (run_id,)).fetchone()
        is_last = final_of is not None and row is not None and row["submission"] == final_of and row["state"] in ENDED
        if is_last and on_host is not None:
            query = "SELECT digest FROM checkpoints WHERE run_id = ? AND on_host AND home_path IS NULL"
            is_last = {digest for (digest,) in connection.execute(query, (run_id,))} <= set(on_host)
        connection.execute(
            """INSERT INTO run_sync (run_id, last_at, next_due_at, final_done, left_there) VALUES (?, ?, ?, ?, ?)
               ON CONFLICT (run_id) DO UPDATE SET last_at = excluded.last_at, next_due_at = excluded.next_due_at,
               final_done = excluded.final_done, left_there = coalesce(excluded.left_there, left_there),
               failing_since = NULL, failures = 0, reason = NULL,
               requested_at = CASE WHEN requested_at <= ? THEN NULL ELSE requested_at END""",
            (run_id, began, None if is_last else next_due_at, int(is_last), left_there, began),
        )
    return is_last


def nothing_is_left(database: Database, run_ids: Iterable[str]) -> None:
    """Record that the hosts of runs have nothing of them that counts, but for those of which more is to come: it was found now."""
    with database.transaction() as connection:
        connection.executemany(
            "UPDATE run_sync SET left_there = 0 WHERE final_done AND run_id = ?", [(run_id,) for run_id in run_ids]
        )


def reopen(database: Database, run_id: str) -> None:
    """Schedule syncs again for a run that continues after its end."""
    with database.transaction() as connection:
        connection.execute("UPDATE run_sync SET final_done = 0, next_due_at = NULL WHERE run_id = ?", (run_id,))


def put_off(database: Database, run_id: str, *, reason: str, now: float) -> None:
    """Record that a sync was not begun. That is no failure, and a request stays."""
    with database.transaction() as connection:
        connection.execute(
            """INSERT INTO run_sync (run_id, next_due_at, reason) VALUES (?, ?, ?)
               ON CONFLICT (run_id) DO UPDATE SET next_due_at = excluded.next_due_at,
               reason = CASE WHEN failures THEN reason ELSE excluded.reason END""",
            (run_id, now + PUT_OFF_S, reason),
        )


def failed(database: Database, run_id: str, *, now: float, reason: str, next_due_at: float) -> None:
    with database.transaction() as connection:
        connection.execute(
            """INSERT INTO run_sync (run_id, next_due_at, failing_since, failures, reason) VALUES (?, ?, ?, 1, ?)
               ON CONFLICT (run_id) DO UPDATE SET next_due_at = excluded.next_due_at, failures = failures + 1,
               failing_since = coalesce(failing_since, excluded.failing_since), reason = excluded.reason, requested_at = NULL""",
            (run_id, next_due_at, now, reason),
        )
