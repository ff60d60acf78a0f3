"""Say why a run needs the user: the dashboard, filters and columns say the same."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

from armada.foundation.sanitize import sanitize_line
from armada.units import counted

if TYPE_CHECKING:
    from armada.store.run_sync import RunSync
    from armada.store.runs import Run

RECENT_S = 86_400.0
"""How long a failure, or a loss that is no number, needs the user, in seconds; after that it is history."""


DAMAGED = "damaged at home"
"""What is said of checkpoints at home that are not as they came."""


class Copies(NamedTuple):
    """What is wrong with the copies of a run at home."""

    failing: str | None = None
    """Why its syncs fail; None if they do not."""
    damaged: int = 0
    """How many checkpoints are damaged here and are mended by no sync that is planned."""


def copies(sync: RunSync | None, damaged: int) -> Copies:
    """Return what is wrong with the copies of a run at home.

    The last sync after a run's end fetches damaged ones again, so they need nobody before it.

    Args:
        sync: What is known of its syncs.
        damaged: How many of its checkpoints are damaged at home.
    """
    if sync is None:
        return Copies(None, damaged)
    failing = sync.reason or "no reason recorded" if sync.failing_since is not None else None
    return Copies(failing, damaged if sync.final_done or sync.next_due_at is None else 0)


def trouble(run: Run, here: Copies, *, urgent: bool) -> str | None:
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
    if here.failing is not None:
        return f"sync fails: {sanitize_line(here.failing, 300)}"
    if here.damaged and run.ended and not run.is_archived:
        command = f"`armada sync verify {run.run_id} --read-data`"
        return f"{counted(here.damaged, 'checkpoint')} {DAMAGED}; {command} fetches again what the host still has"
    if run.state == "succeeded" and run.loss_not_finite is not None and urgent and not run.is_archived:
        return f"it succeeded, but its loss is {run.loss_not_finite}"
    return None
