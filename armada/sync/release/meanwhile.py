"""What came to a run on its host since its files were listed: home read every byte of its own copies meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from armada.protocol.observation import Observation
    from armada.protocol.sync import RunListing


def digests(listing: RunListing) -> set[str]:
    """Return the digests of the finished checkpoints that were listed, also of those that cannot be read."""
    return {checkpoint.digest for checkpoint in listing.outbox} | set(listing.unreadable)


def came_to(before: RunListing, now: Observation) -> str | None:
    """Say what a run has that it had not when it was listed; None: nothing. Its batch system may have started its job again.

    An agent that does not say in its listing which attempt was the newest is not compared by attempts. What could not be
    listed may have been there before.
    """
    attempt = now.evidence.attempt if now.evidence is not None else None
    if before.attempt is not None and attempt is not None and (attempt.number or 0) > before.attempt:
        return "began again"
    if before.problem is not None:
        return None
    seen = {checkpoint.digest for checkpoint in now.outbox} | set(now.unreadable)
    return "got a checkpoint" if seen - digests(before) else None
