"""The states that runs went through, as home saw them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from armada.verdicts.guesses import is_guess

if TYPE_CHECKING:
    from armada.store.database import Database


RESUMED = "submitted again"
"""The message of a run that is resumed."""


def of_run(database: Database, run_id: str) -> list[tuple[float, str, str | None, str | None]]:
    """Return (time, state, reason, message) of each, the oldest first. Times are unix seconds."""
    query = "SELECT time, state, reason, message FROM transitions WHERE run_id = ? ORDER BY rowid"
    return [tuple(row) for row in database.connection.execute(query, (run_id,))]


def stalled_since(database: Database, run_id: str) -> float | None:
    """Return since when the run is seen as stalled; None if it is not."""
    query = "SELECT time, state, reason FROM transitions WHERE run_id = ? ORDER BY rowid DESC LIMIT 1"
    row = database.connection.execute(query, (run_id,)).fetchone()
    stalled = row is not None and (row["state"], row["reason"]) == ("running", "stalled")
    return float(row["time"]) if stalled else None


def revised_at(database: Database, run_id: str) -> float | None:
    """Return when a guessed end was last revised because the run was seen again; None if that never happened."""
    query = "SELECT time, state, reason FROM transitions WHERE run_id = ? ORDER BY rowid"
    found: float | None = None
    before = False
    for row in database.connection.execute(query, (run_id,)):
        guess = is_guess(row["state"], row["reason"])
        # A person causes `submitted` by resuming the run.
        found = float(row["time"]) if before and row["state"] in ("running", "queued") else found
        before = guess
    return None if before else found


def resumed_at(database: Database, run_id: str) -> float | None:
    """Return when the run was last submitted again; None if it never was."""
    query = "SELECT max(time) AS at FROM transitions WHERE run_id = ? AND state = 'submitted' AND message = ?"
    found: float | None = database.connection.execute(query, (run_id, RESUMED)).fetchone()["at"]
    return found


def resumes(database: Database, run_id: str) -> list[float]:
    """Return each time at which the run was submitted again, the first one first."""
    query = "SELECT time FROM transitions WHERE run_id = ? AND state = 'submitted' AND message = ? ORDER BY rowid"
    return [float(row["time"]) for row in database.connection.execute(query, (run_id, RESUMED))]


def was_seen(database: Database, run_id: str) -> bool:
    """Whether the run was ever submitted to or seen on its host; its folder may be gone since."""
    query = "SELECT 1 FROM transitions WHERE run_id = ? AND state IN ('submitted', 'queued', 'running') LIMIT 1"
    return database.connection.execute(query, (run_id,)).fetchone() is not None
