"""Stop all cells of a sweep: every host is told once for all of its cells."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from armada.errors import ArmadaError, NotFound, OutcomeUnknown
from armada.launch.stop import KILL_S, request_of, stop_run
from armada.monitor.observe import observe
from armada.rpc.client import Call
from armada.store import runs
from armada.units import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from armada.rpc.session import HostSession
    from armada.store.database import Database
    from armada.store.runs import Run

_TICK_S = 0.3


def tell_cells(
    database: Database, session: HostSession, cells: Sequence[Run], grace_s: float | None = None
) -> tuple[list[Run], float]:
    """Tell a host to stop cells, in one round trip. Those that wait are told first, so that none takes a stopped one's place.

    Returns:
        The cells of which the host has nothing, and the longest grace period in seconds.

    Raises:
        HostUnreachable: The host does not answer.
    """
    order = sorted(cells, key=lambda run: (run.state == "running", -(run.cell or 0)))
    requests = [request_of(database, run, grace_s) for run in order]
    answers = session.call_all([Call.of(each, 60.0) for each in requests])
    absent = [run for run, answer in zip(order, answers, strict=True) if isinstance(answer, NotFound)]
    problem = next((each for each in answers if isinstance(each, ArmadaError) and not isinstance(each, NotFound)), None)
    if problem is not None:
        raise problem
    return absent, max((each.grace_s for each in requests), default=0.0)


def stop_cells(
    database: Database,
    session: HostSession,
    cells: Sequence[Run],
    grace_s: float | None,
    say: Callable[[str], None],
    pause: Callable[[float], None] = time.sleep,
) -> list[Run]:
    """Stop cells of one host and wait until they have ended.

    Args:
        database: The store.
        session: A session with the host.
        cells: Those that have not ended.
        grace_s: Seconds between SIGTERM and SIGKILL; None for what each spec says.
        say: Receives progress messages.
        pause: Waits between two looks.

    Returns:
        The cells as they are now.

    Raises:
        OutcomeUnknown: Some had not ended well after the grace period.
        HostUnreachable: The host does not answer.
    """
    absent, longest_s = tell_cells(database, session, cells, grace_s)
    for run in absent:
        stop_run(database, session, run, grace_s, say)  # finds out why the host has nothing of it
    deadline = time.monotonic() + longest_s + KILL_S
    while True:
        left = [run for run in (runs.find(database, each.run_id) for each in cells) if not run.ended]
        if not left:
            return [runs.find(database, each.run_id) for each in cells]
        if time.monotonic() > deadline:
            raise OutcomeUnknown(
                f"{counted(len(left), 'cell')} had not ended {longest_s + KILL_S:.0f} s after the stop: {left[0].run_id}",
                hint=f"armada show {left[0].run_id}",
                host=session.host.name,
            )
        say(f"{counted(len(left), 'cell')} on {session.host.name}")
        observe(database, session, left)
        if any(not runs.find(database, each.run_id).ended for each in left):
            pause(_TICK_S)
