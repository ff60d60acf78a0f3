"""Hand the cells of a sweep over to a host: put there what they need, once, then all of them in one request."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from armada.errors import ArmadaError, Conflict, HostUnreachable, OutcomeUnknown, UnexpectedAnswer
from armada.launch.keep import keep_launch, share_packages
from armada.launch.start import (
    asking_home,
    doubt,
    give_up,
    mark_submitted,
    provision_plan,
    record_labels,
    stop_there,
    was_stopped,
)
from armada.launch.stop import request_of
from armada.protocol.sweeps import StartSweep, SweepCell
from armada.provision.exclusive_lock import exclusive_lock
from armada.provision.sent_environment import source_session
from armada.store import runs
from armada.sweeps.clusters import make_arrays
from armada.units import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from armada.foundation.progress import Progress
    from armada.launch.plans.plan import Plan
    from armada.protocol.sweeps import SweepArray, TakenArray, TakenCells
    from armada.rpc.session import HostSession
    from armada.store.database import Database
    from armada.sweeps.planning import HostShare

ANOTHER_SPEC = "exists here with another spec"
"""What the agent answers where a run's name is taken."""
CELLS_PER_REQUEST = 500
_SUBMIT_S = 180.0
"""A batch system may take this long to take cells."""
_PATIENCE_S = 60.0
_PER_CELL_S = 0.5


@dataclass(slots=True)
class Taken:
    """What a host took.

    Attributes:
        cells: How many; one that was stopped meanwhile does not count.
        arrays: Those that a batch system has now.
    """

    cells: int = 0
    arrays: tuple[TakenArray, ...] = ()


def provision_share(database: Database, share: HostShare, progress: Progress) -> HostShare:
    """Put on a host what its cells need; what several need is put there once. Starts nothing.

    Raises:
        ProvisionFailed: The host cannot have it.
        HostUnreachable: The host does not answer.
    """
    session = share.session
    done: list[tuple[Plan, Plan]] = []
    plans: list[Plan] = []
    lock = session.home.lock(f"host-{share.host}")
    with (
        exclusive_lock(lock, "launch of a sweep", lambda who: progress.stage("waiting", who)),
        source_session(session.home, Path.cwd(), session.host) or contextlib.nullcontext() as source,
    ):
        for plan in share.plans:
            record_labels(database, session.home, plan)
            keep_launch(database, session.home, plan, progress)
            same = next((pair for pair in done if _needs(pair[0]) == _needs(plan)), None)
            if same is not None:
                plans.append(_like(plan, *same))
                share_packages(session.home, same[0].run_id, plan.run_id)
                continue
            sent = {content for before, _ in done for content in before.missing}
            asked = dataclasses.replace(plan, missing=tuple(each for each in plan.missing if each not in sent))
            provisioned = provision_plan(database, session, asked, progress, source)
            done.append((plan, provisioned))
            plans.append(provisioned)
    changed = [plan for plan, before in zip(plans, share.plans, strict=True) if plan.spec != before.spec]
    with database.transaction():
        for plan in changed:
            runs.set_spec(database, plan.run_id, plan.spec.as_json())
    return dataclasses.replace(share, plans=plans)


def _needs(plan: Plan) -> tuple[object, ...]:
    return (plan.environment, plan.existing, plan.hub, plan.contents, plan.missing, plan.job_files, plan.container)


def _like(plan: Plan, before: Plan, after: Plan) -> Plan:
    """A plan with what was found out for another one that needs the same."""
    links = after.spec.job.data[len(before.spec.job.data) :]
    spec = plan.spec
    if links:
        job = spec.job.model_copy(update={"data": (*spec.job.data, *links)})
        spec = spec.model_copy(update={"job": job})
    if after.container is not None:
        spec = spec.model_copy(update={"container": after.spec.container})
    return dataclasses.replace(plan, spec=spec)


def hand_over(database: Database, sweep: str, share: HostShare) -> Taken:
    """Have a host take its cells: one request for up to 500 of them. Repeating it starts nothing twice.

    A batch system gets all cells with the last request, so that no part of them is submitted alone.

    Raises:
        OutcomeUnknown: The host may have them or not; they are recorded as `unknown`.
        Conflict: The host has other cells under these names; these are forgotten.
        ArmadaError: The host refused, and starts none of them; they are recorded as failed.
    """
    session = share.session
    wanted = [plan for plan in share.plans if not runs.find(database, plan.run_id).ended]
    is_batch = session.host.batch is not None
    taken = Taken()
    for start in range(0, len(wanted), CELLS_PER_REQUEST):
        plans = wanted[start : start + CELLS_PER_REQUEST]
        is_last = start + CELLS_PER_REQUEST >= len(wanted)
        concerned = wanted if is_batch else plans
        arrays = make_arrays(session, wanted) if is_batch and is_last else None
        try:
            answer = session.call(
                _request(session, sweep, share, plans, arrays),
                timeout_s=_PATIENCE_S + _PER_CELL_S * len(concerned) + (_SUBMIT_S if is_batch else 0.0),
            )
        except (OutcomeUnknown, UnexpectedAnswer, HostUnreachable) as error:
            left = [plan.run_id for plan in (wanted if is_batch else wanted[start:])]
            reason = "link_lost" if isinstance(error, HostUnreachable) else "outcome_unknown"
            _record_all(database, left[: len(concerned)], doubt, reason, error.message)
            _record_all(database, left[len(concerned) :], _doubt_unsent, reason, error.message)
            raise OutcomeUnknown(
                f"it is unknown whether {counted(len(concerned), 'cell')} of {sweep} started ({error.message})",
                hint=f"armada sweep show {sweep} finds out; nothing is started twice",
                host=share.host,
            ) from error
        except Conflict as error:
            left = [plan.run_id for plan in (wanted if is_batch else wanted[start:])]
            if ANOTHER_SPEC not in error.message:
                _record_all(database, left, give_up, "submit_refused", error.message)
                raise
            for run_id in left:  # nothing of them is on the host, and others have their names there
                runs.delete(database, run_id)
            raise older_store(sweep, share.host) from error
        except ArmadaError as error:
            left = [plan.run_id for plan in (wanted if is_batch else wanted[start:])]
            _record_all(database, left, give_up, "submit_refused", error.message)
            raise
        if is_last or not is_batch:
            taken.arrays += answer.arrays
            taken.cells += _record_taken(database, session, [plan.run_id for plan in concerned], answer)
    return taken


def older_store(sweep: str, host: str | None = None) -> Conflict:
    """Build the error for cells that the store does not know: it is an older copy than the sweep."""
    return Conflict(
        f"{sweep} has cells that the store does not know, as after an older copy of it was put back; nothing was started",
        hint="armada recover reads them from their hosts; then run the command again",
        host=host,
    )


def _record_taken(database: Database, session: HostSession, run_ids: Sequence[str], answer: TakenCells) -> int:
    """Record cells as submitted, and stop on the host those that were stopped meanwhile. Return how many it has."""
    outcomes = {cell.run_id: cell.outcome for cell in answer.cells}
    with database.transaction():
        stopped = [run_id for run_id in run_ids if was_stopped(database, run_id)]
        for run_id in run_ids:
            if outcomes.get(run_id) != "cancelled":
                mark_submitted(database, run_id)
    if stopped:
        # Their stop found no records of them on the host.
        stop_there(database, session, [request_of(database, runs.find(database, each), None) for each in stopped])
    return len(run_ids) - len(stopped)


def _request(
    session: HostSession,
    sweep: str,
    share: HostShare,
    plans: Sequence[Plan],
    arrays: Sequence[SweepArray] | None,
) -> StartSweep:
    names = {name for plan in plans for name in plan.experiment.secrets}
    return StartSweep(
        sweep=sweep,
        parallel=share.parallel,
        cells=tuple(SweepCell(run_id=plan.run_id, spec=plan.spec, files=plan.files) for plan in plans),
        secrets={name: os.environ[name] for name in sorted(names)},
        home=asking_home(session),
        arrays=tuple(arrays) if arrays is not None else None,
    )


def _doubt_unsent(database: Database, run_id: str, reason: str, message: str) -> None:
    doubt(database, run_id, reason, message, was_sent=False)


def _record_all(
    database: Database,
    run_ids: Sequence[str],
    record: Callable[[Database, str, str, str], object],
    reason: str,
    message: str,
) -> None:
    with database.transaction():
        for run_id in run_ids:
            record(database, run_id, reason, message)
