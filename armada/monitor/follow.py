"""Watch one run until it has ended; a link that breaks is waited for, since the run does not need it."""

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
"""Within one look, so that a person soon reads that the host does not answer; the looks themselves never end."""


GUESS_S = 600.0
"""How long a guessed end is waited on: a scheduler that was asked while it restarted knows its jobs again by then."""


def goes_on(run: Run, now: float) -> bool:
    """Whether there is more to wait for: it has not ended, or its end was guessed a moment ago and may yet be taken back.

    Args:
        run: As last seen.
        now: Unix time.
    """
    return not run.ended or (run.is_guess and run.guessed_at is not None and now - run.guessed_at < GUESS_S)


def follow(database: Database, session: HostSession, run_id: str) -> Iterator[Run]:
    """Yield the run after every look, about once a second; the last one has ended, or is guessed to have for `GUESS_S`.

    Raises:
        HostKeyChanged: Waiting does not help here; a person has to decide.
        AuthenticationFailed: Nor here.
    """
    while True:
        began = time.monotonic()
        try:
            with session.patient(PATIENCE_S, endless=True):
                observe(database, session, [runs.find(database, run_id)])
        except HostUnreachable as error:
            # observe() has noted since when, and the next look may succeed; these two want a person.
            if isinstance(error, HostKeyChanged | AuthenticationFailed):
                raise
        run = runs.find(database, run_id)
        yield run
        if not goes_on(run, time.time()):
            return
        time.sleep(max(0.0, PERIOD_S - (time.monotonic() - began)))
