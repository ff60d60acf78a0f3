"""Find what an interrupted launch or extension of a sweep has left."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from armada.foundation.sanitize import sanitize_line
from armada.store import operations, runs, sweeps, transitions
from armada.store.running_operations import being_launched
from armada.verdicts.state import NOT_ON_HOST

if TYPE_CHECKING:
    from armada.store.database import Database
    from armada.store.runs import Run
    from armada.store.sweeps import SweepRecord

_LAUNCHED = "launched"
"""In a sweep's settings; absent in those of former releases."""

NOT_LAUNCHED = {_LAUNCHED: False}
"""What the settings of a new sweep say."""


def not_handed_over(database: Database, sweep: str) -> list[Run]:
    """Return the cells that no host is known to have taken, whichever command was to hand them over."""
    unsure = [run for run in runs.of_sweep(database, sweep) if run.state in ("preparing", "unknown")]
    return [run for run in unsure if not transitions.was_seen(database, run.run_id)]


def mark_started(database: Database, sweep: str) -> None:
    """Record that a sweep's launch is complete, unless cells are left of this or another command that was interrupted.

    As long as some are left, the commands that were to hand them over continue this sweep. One that was stopped
    meanwhile stays stopped.
    """
    if sweeps.find(database, sweep).state == "preparing" and not not_handed_over(database, sweep):
        sweeps.set_state(database, sweep, "started")


def complete_launches(database: Database, host: str) -> None:
    """Record of sweeps on a host that they are started, although the answer to their commands was lost.

    All their cells must be known to be on their hosts. What a host says it does not have is left to the command: it
    hands that over when it is repeated.
    """
    waiting = sweeps.preparing_on(database, host)
    launching = being_launched(database) if waiting else set()
    for name in waiting:
        lost = [run for run in runs.of_sweep(database, name) if run.reason == NOT_ON_HOST]
        if name not in launching and all(transitions.was_seen(database, run.run_id) for run in lost):
            mark_started(database, name)


def mark_launched(database: Database, sweep: str) -> None:
    """Record that the launch itself is complete: the same command starts another sweep from now on."""
    with database.transaction():
        record = sweeps.find(database, sweep)
        sweeps.change_settings(database, sweep, {**record.settings, _LAUNCHED: True})


def was_launched(record: SweepRecord) -> bool:
    """Whether the launch is complete, as far as the sweep's settings tell; an extension does not complete it."""
    return record.settings.get(_LAUNCHED, True) is True


def is_interrupted(record: SweepRecord) -> bool:
    """Whether a command that was to hand cells over did not come to its end, or is still at it."""
    return record.state == "preparing" or (record.state == "started" and not was_launched(record))


def interrupted_commands(database: Database, sweep: str) -> list[str]:
    """Return the launches and extensions of a sweep that did not come to their end, as they were typed, oldest first."""
    found: dict[tuple[str, ...], bool] = {}
    for each in reversed(operations.of_run(database, sweep, kind="launch")):
        found[each.argv[1:]] = found.get(each.argv[1:], False) or each.state == "done"
    return [sanitize_line(shlex.join(("armada", *argv)), 1000) for argv, is_done in found.items() if not is_done]
