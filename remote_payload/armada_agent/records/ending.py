"""The end of a run: the states of an ended run, and how a job ended."""

from typing import Any, Dict, Optional

from armada_agent.verdicts.cause import Cause

ENDED = ("succeeded", "failed", "cancelled")
"""The states of a run that has ended."""


class Ending:
    """How a job ended, in the terms of state.json and exit.json.

    Attributes:
        steps: `step_before` and `step` of the newest whole checkpoint, for exit.json; empty if unknown.
        cause: Why a job failed on its own, for events.jsonl.
    """

    def __init__(self, state: str, reason: Optional[str] = None, message: Optional[str] = None) -> None:
        self.state = state
        self.reason = reason
        self.message = message
        self.exit_code: Optional[int] = None
        self.signal: Optional[int] = None
        self.steps: Dict[str, Optional[int]] = {}
        self.cause: Optional[Cause] = None

    def with_status(self, status: Optional[int]) -> "Ending":
        """Return this ending with a process's return code, which is negative for a signal."""
        if status is not None:
            self.exit_code = status if status >= 0 else None
            self.signal = -status if status < 0 else None
        return self


def exit_of(record: Optional[Dict[str, Any]], submission: int) -> Optional[Dict[str, Any]]:
    """Return an exit record, or None if it is another submission's. An older armada does not name the submission in it."""
    number = (record or {}).get("submission")
    return record if not isinstance(number, int) or number == submission else None
