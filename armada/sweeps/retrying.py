"""Retry failed cells by the class of their failure: those that were lost with their machine, not those that fail again."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from armada.errors import ArmadaError, HostUnreachable
from armada.launch.retry import LOST
from armada.launch.service import Caller, resume
from armada.monitor.observe import ask_about
from armada.store import runs
from armada.verdicts.again import announces, may_have_succeeded

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from armada.launch.plans.task import Order
    from armada.store.database import Database
    from armada.store.runs import Run

RETRIED = (*LOST, "never_started", "terminated")
"""Reasons that say nothing about the cell itself: its machine or its supervisor ended."""

_MAY_HAVE = "it may have succeeded: its exit code was not recorded"

_REMOVED = "somebody removed it from the queue; `--reason removed` resumes it"


def is_removed(run: Run) -> bool:
    """Return whether a run was removed from its queue, and not by armada."""
    return run.state == "cancelled" and run.reason == "removed"


@dataclass(slots=True)
class Retried:
    """What became of failed cells.

    Attributes:
        resumed: Ids of the runs that continue.
        left: Why the others do not, by their ids.
    """

    resumed: list[str] = field(default_factory=list)
    left: dict[str, str] = field(default_factory=dict)


def retry_cells(order: Order, cells: Sequence[Run], also: Collection[str], caller: Caller, done: Retried) -> None:
    """Resume failed cells of one host that are worth it. One that cannot be resumed keeps no other from it.

    Args:
        order: With a session with the host.
        cells: Failed ones, and those that were removed from the queue.
        also: Further reasons: the user has removed the cause.
        caller: The command.
        done: Receives what became of each.

    Raises:
        HostUnreachable: The host does not answer.
    """
    for run in cells:
        if run.reason not in (*RETRIED, *also):
            done.left[run.run_id] = (
                f"{run.reason or 'unknown'}: {_REMOVED if is_removed(run) else 'it would fail again'}"
            )
        elif run.reason in LOST and run.reason not in also and _may_have_succeeded(order, run):
            done.left[run.run_id] = f"{run.reason}: {_MAY_HAVE}"
        else:
            try:
                resume(order, run, caller)
            except HostUnreachable:
                raise
            except ArmadaError as error:
                done.left[run.run_id] = error.message
            else:
                done.resumed.append(run.run_id)


def _may_have_succeeded(order: Order, run: Run) -> bool:
    database: Database = order.database
    evidence = ask_about(order.session, run).run.evidence
    return may_have_succeeded(
        evidence.may_have_succeeded if evidence is not None else None,
        run.reason,
        is_announcing=announces(runs.spec(database, run.run_id)),
        rebooted=evidence is not None and evidence.rebooted,
    )
