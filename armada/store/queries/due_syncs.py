"""Which runs have something on their host that could be fetched now."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from armada.store.database import Database


def runs_with_news(database: Database, now: float, *, not_wanted: str, longest_wait_s: float) -> set[str]:
    """Runs with a checkpoint on the host that is not home, and that may be tried now.

    Args:
        database: The store.
        now: Unix time.
        not_wanted: The trouble of checkpoints that no rule wants.
        longest_wait_s: A next try farther away than that comes from a clock that was wrong.
    """
    rows = database.connection.execute(
        """SELECT DISTINCT c.run_id FROM checkpoints c LEFT JOIN transfers t USING (run_id, digest)
           WHERE c.on_host AND c.verified_at IS NULL AND coalesce(c.trouble, '') <> ?
           AND (t.state IS NULL OR t.state IN ('waiting', 'running') OR t.next_try_at <= ? OR t.next_try_at > ?)""",
        (not_wanted, now, now + longest_wait_s),
    )
    return {row["run_id"] for row in rows}
