"""Find the runs that have something on their host to fetch now."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from armada.store.database import Database


def runs_with_news(database: Database, now: float, *, not_wanted: str, longest_wait_s: float) -> set[str]:
    """Return the runs with a checkpoint on the host that is not at home and may be tried now.

    Args:
        database: The store.
        now: Unix time.
        not_wanted: The `trouble` of checkpoints that no retention rule wants.
        longest_wait_s: A retry scheduled later than this was written by a wrong clock and counts as due.
    """
    rows = database.connection.execute(
        """SELECT DISTINCT c.run_id FROM checkpoints c LEFT JOIN transfers t USING (run_id, digest)
           WHERE c.on_host AND c.verified_at IS NULL AND coalesce(c.trouble, '') <> ?
           AND (t.state IS NULL OR t.state IN ('waiting', 'running') OR t.next_try_at <= ? OR t.next_try_at > ?)""",
        (not_wanted, now, now + longest_wait_s),
    )
    return {row["run_id"] for row in rows}
