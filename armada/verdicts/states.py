"""The states of a run, and the verdict that names one."""

from __future__ import annotations

from dataclasses import dataclass

ENDED = frozenset({"succeeded", "failed", "cancelled"})
"""States that do not change any more."""

STATES = ("preparing", "submitted", "queued", "running", "unknown", *sorted(ENDED))


@dataclass(frozen=True, slots=True)
class Verdict:
    """A run's state according to an observation; `(attempt, seq)` orders observations, `because` names the evidence."""

    state: str
    reason: str | None = None
    message: str | None = None
    attempt: int = 0
    seq: int = 0
    because: str | None = None


STATE_GLYPHS = {"running": "●", "queued": "◐", "submitted": "◐", "preparing": "·", "succeeded": "✓", "failed": "✗"}
STATE_GLYPHS |= {"cancelled": "–", "unknown": "?"}
"""The sign before each state, on the command line and in the dashboard."""
