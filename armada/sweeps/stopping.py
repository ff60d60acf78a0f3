"""Stop all cells of a sweep: every host is told once for all of its cells."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from armada.errors import ArmadaError, NotFound, OutcomeUnknown
from armada.launch.stop import KILL_S, request_of, stop_run
from armada.monitor.observe import observe
from armada.rpc.client import Call
from armada.store import runs
from armada.units import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from armada.protocol.runs import StopRun
    from armada.rpc.session import HostSession
    from armada.store.database import Database
    from armada.store.runs import Run

_TICK_S = 0.3


PRUNED = "pruned"
"""The reason of a cell that did badly at a step."""
SWEEP_STOPPED = "sweep_stopped"
"""The reason of a cell that its sweep's stop rule ended."""
TOLD_TO_STOP = "it was told to stop"
"""Why a sweep is stopped that a person stopped."""


@dataclass(frozen=True, slots=True)
class Because:
    """Which rule of a sweep stops a cell, and why. A person's stop has none."""

    reason: str
    message: str


def tell_cells(
    database: Database,
    session: HostSession,
    cells: Sequence[Run],
    grace_s: float | None = None,
    because: Mapping[str, Because] | None = None,
) -> tuple[list[Run], float]:
    """Tell a host to stop cells, in one round trip. Those that wait are told first, so that none takes a stopped one's place.

    Args:
        database: The store.
        session: A session with the host.
        cells: Those that have not ended.
        grace_s: Seconds between SIGTERM and SIGKILL; None for what each spec says.
        because: Which rule stops a cell, by its run.

    Returns:
        The cells of which the host has nothing, and the longest grace period in seconds.

    Raises:
        HostUnreachable: The host does not answer.
    """
    order = sorted(cells, key=lambda run: (run.state == "running", -(run.cell or 0)))
    requests = [_request(database, run, grace_s, (because or {}).get(run.run_id)) for run in order]
    answers = session.call_all([Call.of(each, 60.0) for each in requests])
    absent = [run for run, answer in zip(order, answers, strict=True) if isinstance(answer, NotFound)]
    problem = next((each for each in answers if isinstance(each, ArmadaError) and not isinstance(each, NotFound)), None)
    if problem is not None:
        raise problem
    return absent, max((each.grace_s for each in requests), default=0.0)


def _request(database: Database, run: Run, grace_s: float | None, because: Because | None) -> StopRun:
    request = request_of(database, run, grace_s)
    if because is None:
        return request
    return request.model_copy(update={"reason": because.reason, "message": because.message[:500]})


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
