"""End a run, and say when it has ended."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from armada.errors import Conflict, NotFound, OutcomeUnknown
from armada.monitor.observe import ROOT_AWAY, observe
from armada.monitor.state import NOT_ON_HOST
from armada.store import runs

if TYPE_CHECKING:
    from collections.abc import Callable

    from armada.session import HostSession
    from armada.store.database import Database
    from armada.store.runs import Run

KILL_S = 30.0
"""After the grace time: signalling every process, and the supervisor's last words."""


def stop_run(
    database: Database, session: HostSession, run: Run, grace_s: float | None, say: Callable[[str], None]
) -> Run:
    """Ask the host to end a run and wait until it has.

    Args:
        database: The store.
        session: With the run's host.
        run: Which.
        grace_s: Seconds between SIGTERM and SIGKILL; None for what the run's spec says.
        say: Told what is going on.

    Returns:
        The run as it ended; `cancelled` unless it had ended before.

    Raises:
        Conflict: It ended, and was resumed before anybody could see that it had.
        OutcomeUnknown: It had not ended well after the grace time.
    """
    if grace_s is None:
        grace_s = float(runs.spec(database, run.run_id).get("stop_grace_s", 60.0))
    try:
        answer = session.call("run.stop", {"run_id": run.run_id, "grace_s": grace_s}, timeout_s=60.0)
    except NotFound:
        observe(database, session, [run])
        run = runs.find(database, run.run_id)
        # Its launch broke off before the host had heard of it; there is nothing to end but our own record.
        if run.reason != ROOT_AWAY and (run.state == "preparing" or run.reason == NOT_ON_HOST):
            runs.set_state(database, run.run_id, "cancelled", reason="killed_by_user")
            return runs.find(database, run.run_id)
        if run.ended:
            return run
        raise OutcomeUnknown(
            f"whether {run.run_id} runs cannot be known: {run.message}",
            hint="when its root is back on the host, again",
            host=run.host,
        ) from None
    asked = answer.get("submission")  # agents of the first release do not say
    deadline = time.monotonic() + grace_s + KILL_S
    while True:
        observe(database, session, [run])
        run = runs.find(database, run.run_id)
        if isinstance(asked, int) and run.submission > asked:
            raise Conflict(
                f"{run.run_id} ended, was resumed by another armada a moment ago, and is {run.state}",
                hint=f"armada stop {run.run_id} ends it again",
                host=run.host,
            )
        if run.ended:
            return run
        if time.monotonic() > deadline:
            raise OutcomeUnknown(
                f"{run.run_id} is still {run.state}, {grace_s + KILL_S:.0f} s after it was asked to end",
                hint=f"armada show {run.run_id}; armada logs {run.run_id}",
                host=run.host,
            )
        say(f"{run.run_id} · grace {grace_s:.0f} s")
        time.sleep(0.3)
