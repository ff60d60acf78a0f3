"""Follow one run until it has ended. A broken link is retried for ever, since the run does not need it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from armada.errors import AuthenticationFailed, HostKeyChanged, HostUnreachable
from armada.monitor.observe import observe
from armada.store import runs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from armada.rpc.session import HostSession
    from armada.store.database import Database
    from armada.store.runs import Run

PERIOD_S = 1.0
PATIENCE_S = 2.0
"""Within one poll, in seconds, so that the user soon reads that the host does not answer; polling itself never stops."""


GUESS_S = 600.0
"""How long to wait after a guessed end, in seconds: a scheduler that was restarting knows its jobs again by then."""


def goes_on(run: Run, now: float) -> bool:
    """Whether to wait longer: the run has not ended, or its end was guessed recently and may be revised.

    Args:
        run: The run as last seen.
        now: Unix time.
    """
    return not run.ended or (run.is_guess and run.guessed_at is not None and now - run.guessed_at < GUESS_S)


def follow(database: Database, session: HostSession, run_id: str) -> Iterator[Run]:
    """Yield the run after every poll, about once a second. The last one has ended, or its end has been a guess for `GUESS_S`.

    Raises:
        HostKeyChanged: Waiting does not help; the user has to decide.
        AuthenticationFailed: Likewise.
    """
    while True:
        began = time.monotonic()
        try:
            with session.patient(PATIENCE_S, endless=True):
                observe(database, session, [runs.find(database, run_id)])
        except HostUnreachable as error:
            # observe() has recorded the failure, and the next poll may succeed; these two errors need the user.
            if isinstance(error, HostKeyChanged | AuthenticationFailed):
                raise
        run = runs.find(database, run_id)
        yield run
        if not goes_on(run, time.time()):
            return
        time.sleep(max(0.0, PERIOD_S - (time.monotonic() - began)))
