"""Follow a run to its end, for `armada.api`."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

from armada.errors import OutcomeUnknown

if TYPE_CHECKING:
    from collections.abc import Callable

    from armada.api.values import Run
    from armada.rpc.session import HostSession
    from armada.store.database import Database
    from armada.store.runs import Run as StoredRun


class Told:
    """Calls the caller's function, and keeps its OSError, which is not about this machine's home."""

    def __init__(self, changed: Callable[[Run], None] | None) -> None:
        self._changed = changed
        self.failure: OSError | None = None

    def __call__(self, run: Run) -> None:
        if self._changed is None:
            return
        try:
            self._changed(run)
        except OSError as error:
            self.failure = error
            raise


def follow_to_end(
    database: Database, session: HostSession, run: StoredRun, until: float | None, changed: Callable[[Run], None]
) -> StoredRun:
    """Look about once a second until a run has ended for good; resume it where its `retries` allow. Return its last state.

    Args:
        database: The store.
        session: With the run's host.
        run: The run.
        until: When to give up, by the monotonic clock; None for never.
        changed: Called with the run after every look that found a change.
    """
    from armada.api.conversion import run_of
    from armada.launch.retry import Retries
    from armada.monitor.follow import follow, goes_on
    from armada.store import runs

    retries = Retries(session)
    seen: Run | None = None
    while True:
        for now in follow(database, session, run.run_id):
            told = run_of(now)
            if told != seen:
                changed(told)
            seen = told
            if until is not None and time.monotonic() >= until:
                return now
        with contextlib.suppress(OutcomeUnknown):  # the next look tells
            retries.look(database, only=run.run_id)
        run = runs.find(database, run.run_id)
        if not goes_on(run, time.time()):
            return run
