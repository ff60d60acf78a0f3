"""Whether a run that was lost may be started again by itself. A job that may have succeeded is not."""

from __future__ import annotations


def may_have_succeeded(said: object, reason: str | None) -> bool:
    """Judge a run that ended without an exit.

    Args:
        said: What the host says of it, true or false; anything else where it cannot say, as an older agent.
        reason: Why the run is called lost.
    """
    if isinstance(said, bool):
        return said
    # A host that was restarted ended the job at the same moment as its supervisor. A supervisor alone may have died before it.
    return reason != "host_rebooted"
