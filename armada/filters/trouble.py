"""Say why a run needs the user: the dashboard, filters and columns say the same."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from armada.foundation.sanitize import sanitize_line

if TYPE_CHECKING:
    from armada.store.runs import Run

RECENT_S = 86_400.0
"""How long a failure, or a loss that is no number, needs the user, in seconds; after that it is history."""


def trouble(run: Run, sync_failing: str | None, *, urgent: bool) -> str | None:
    """Return why this run needs the user; None if it does not."""
    because = sanitize_line(run.message, 300) if run.message else None
    reason = sanitize_line(run.reason, 60) if run.reason else None
    if not run.ended and run.unreachable_since is not None:
        since = time.strftime("%H:%M", time.localtime(run.unreachable_since))
        return f"unreachable since {since}: {sanitize_line(run.unreachable_why or 'no answer', 200)}"
    if run.state == "failed" and urgent and not run.is_archived:  # who archives a failure has seen it
        return ": ".join(part for part in (reason, because) if part) or "no reason recorded"
    if run.state == "unknown" or (run.state == "running" and reason):
        return ": ".join(part for part in (reason, because) if part) or "its state is unknown"
    if run.state == "running" and run.loss_not_finite is not None:
        return f"its loss is {run.loss_not_finite}"
    if sync_failing is not None:
        return f"sync fails: {sanitize_line(sync_failing, 300)}"
    if run.state == "succeeded" and run.loss_not_finite is not None and urgent and not run.is_archived:
        return f"it succeeded, but its loss is {run.loss_not_finite}"
    return None
