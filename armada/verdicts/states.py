"""The states of a run, and the verdict that names one."""

from __future__ import annotations

from dataclasses import dataclass

ENDED = frozenset({"succeeded", "failed", "cancelled"})
"""States that do not change any more."""

STATE_MEANINGS = {
    "preparing": "armada checks the experiment and puts code, data and the environment on the host",
    "submitted": "the host or its batch system has the run; its job has not begun yet",
    "queued": "it waits in the queue of its batch system, for the first time or again",
    "running": "its job runs; `running: stalled` if nothing has progressed for `stall_after`",
    "unknown": "what its host shows does not tell; `armada why RUN` says what is missing",
    "cancelled": "somebody stopped it",
    "failed": "its job ended with an error, or was lost; `armada why RUN` says the cause",
    "succeeded": "its job ended without an error",
}
"""What each state means, for a person."""

STATES = ("preparing", "submitted", "queued", "running", "unknown", *sorted(ENDED))


@dataclass(frozen=True, slots=True)
class Verdict:
    """A run's state according to an observation; `(attempt, seq)` orders observations, `because` names the evidence.

    `only_told`: its batch system reported the end, and no process recorded it (see `guesses`).
    """

    state: str
    reason: str | None = None
    message: str | None = None
    attempt: int = 0
    seq: int = 0
    because: str | None = None
    only_told: bool = False


STATE_GLYPHS = {"running": "●", "queued": "◐", "submitted": "◐", "preparing": "·", "succeeded": "✓", "failed": "✗"}
STATE_GLYPHS |= {"cancelled": "–", "unknown": "?"}
"""The sign before each state, on the command line and in the dashboard."""
