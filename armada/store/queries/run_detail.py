"""One run in full, for its screen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from armada.store.values import decode

if TYPE_CHECKING:
    from armada.store.database import Database

EVENTS_SHOWN = 2000


def find_spec(database: Database, run_id: str) -> dict[str, Any] | None:
    """Return a run's plan, or None if the run does not exist."""
    row = database.connection.execute("SELECT spec FROM runs WHERE run_id = ?", (run_id,)).fetchone()
    return decode(dict, row["spec"], f"the column spec of {run_id}") if row is not None else None


def newest_events(database: Database, run_id: str, most: int = EVENTS_SHOWN) -> list[dict[str, Any]]:
    """Return the last events of a run, oldest first."""
    newest = database.connection.execute(
        "SELECT data FROM events WHERE run_id = ? ORDER BY seq DESC LIMIT ?", (run_id, most)
    )
    return [decode(dict, event["data"], f"the column data of an event of {run_id}") for event in newest][::-1]
