"""Decide whether a lost run may be started again automatically, and from where. A job that may have succeeded is not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


def resumes_from(spec: Mapping[str, Any], steps: Iterable[int]) -> int | None:
    """Say from which step the next attempt goes on; None: from its beginning.

    Args:
        spec: The run's plan. A script or command that has nothing under `resume` is told of no checkpoint.
        steps: Of the checkpoints that its host has.
    """
    watch = spec.get("watch")
    if isinstance(watch, Mapping) and not watch.get("resume"):
        return None
    return max(steps, default=None)


def resuming_words(step: int | None) -> str:
    """Say it in words: `from step 30`, `from its beginning`."""
    return "from its beginning" if step is None else f"from step {step}"


def may_have_succeeded(said: object, reason: str | None, *, announces: bool, rebooted: bool) -> bool:
    """Judge a run that ended without an exit.

    Args:
        said: What the host says of it, true or false; anything else where it cannot say, as an older agent.
        reason: Why the run is called lost, as home saw it first.
        announces: It is armada's own training, which announces its final checkpoint before it ends well.
        rebooted: The host was restarted since the run's supervisor began.
    """
    if reason == "supervisor_lost" and rebooted and not announces:
        return True  # it was lost before the restart, which therefore says nothing about its end
    if isinstance(said, bool):
        return said
    # A host that was restarted ended the job at the same moment as its supervisor. A supervisor alone may have died before it.
    return reason != "host_rebooted"
