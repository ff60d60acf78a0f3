"""Plan all cells of a sweep: each host is asked once for what all its cells have in common. Changes nothing."""

from __future__ import annotations

import contextlib
import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from armada.errors import HostUnreachable, PreflightRefused
from armada.launch.checks.check import refuse_failures
from armada.launch.plans.plan import make_plan
from armada.launch.plans.registry import task_of
from armada.launch.plans.task import Order
from armada.launch.start import asking_home
from armada.protocol.spec import SweepSection
from armada.provision.content import hashing_once
from armada.store import runs
from armada.sweeps.clusters import NO_LIMIT, ask_room, refuse_impossible
from armada.sweeps.dealing import deal, room_for, share
from armada.units import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from armada.launch.plans.plan import Plan
    from armada.launch.plans.task import Task
    from armada.paths import HomePaths
    from armada.rpc.session import HostSession
    from armada.store.database import Database
    from armada.sweeps.cells import Cell


@dataclass(frozen=True, slots=True)
class Asked:
    """A sweep that is asked for.

    Attributes:
        name: Its id.
        title: What the user calls it.
        experiment: The file.
        cells: All of them, or those that are new.
        sessions: With the hosts it may use, by name.
        profile: Its name, instead of the hosts' own.
        parallel: How many cells run at once on all hosts together.
        settings: What the store keeps.
        task: Makes the task of a cell; None for that of its experiment.
    """

    name: str
    title: str
    experiment: Path
    cells: Sequence[Cell]
    sessions: Mapping[str, HostSession]
    home: HomePaths
    database: Database
    profile: str | None
    parallel: int | None
    settings: Mapping[str, object]
    task: Callable[[Cell, Order], Task[Any]] | None = None


@dataclass(frozen=True, slots=True)
class HostShare:
    """The cells of one host.

    Attributes:
        session: With the host.
        parallel: How many run at once there.
        plans: Each a run of its own.
    """

    session: HostSession
    parallel: int
    plans: Sequence[Plan]

    @property
    def host(self) -> str:
        return self.session.host.name

    @property
    def at_once(self) -> str:
        """Say how many cells run at once."""
        is_open = self.session.host.batch is not None and self.parallel >= NO_LIMIT
        return "as many at once as its queue allows" if is_open else f"{self.parallel} at once"


@dataclass(frozen=True, slots=True)
class SweepPlan:
    """A sweep with every cell planned.

    Attributes:
        shares: By host, in the order in which they were named.
        left_out: Why hosts take no part, by their names.
    """

    shares: Mapping[str, HostShare]
    left_out: Mapping[str, str]


def run_id_of(sweep: str, number: int) -> str:
    """The id of the run of a cell."""
    return f"{sweep}-{number:03}"


def plan_sweep(asked: Asked, say: Callable[[str], None], already: Mapping[str, int] | None = None) -> SweepPlan:
    """Deal the cells to the hosts and plan each on its host.

    Args:
        asked: What is asked for.
        say: Told which host is asked.
        already: Cells that each host has from before.

    Raises:
        PreflightRefused: A check failed, or a host cannot take part.
        HostUnreachable: No host answers.
    """
    with contextlib.ExitStack() as memory:
        memory.enter_context(hashing_once())
        for session in asked.sessions.values():
            memory.enter_context(session.remembering())
        return _plan_sweep(asked, say, already)


def _plan_sweep(asked: Asked, say: Callable[[str], None], already: Mapping[str, int] | None) -> SweepPlan:
    rooms: dict[str, int] = {}
    left_out: dict[str, str] = {}
    failures: list[HostUnreachable] = []
    for name, session in asked.sessions.items():
        say(name)
        try:
            first = _plan(asked, session, asked.cells[0])
            if session.host.batch is not None:
                rooms[name] = ask_room(session, first) if len(asked.sessions) > 1 else 1
                continue
        except HostUnreachable as error:
            failures.append(error)
            left_out[name] = error.message
            continue
        rooms[name] = room_for(first.facts, first.gpus, first.spec.processes)
    if not rooms:
        raise failures[0]
    shared = share(asked.parallel, rooms)
    dealt_by = dict(shared)
    if asked.parallel is None:
        shared |= dict.fromkeys((name for name in shared if asked.sessions[name].host.batch is not None), NO_LIMIT)
    left_out |= {name: "there is nothing to do for it at once" for name in rooms if name not in shared}
    hosts = deal(len(asked.cells), dealt_by, already)
    dealt = {name: [cell for cell, host in zip(asked.cells, hosts, strict=True) if host == name] for name in shared}
    return SweepPlan(
        {name: plan_share(asked, name, cells, shared[name]) for name, cells in dealt.items() if cells}, left_out
    )


def plan_share(asked: Asked, host: str, cells: Sequence[Cell], parallel: int) -> HostShare:
    """Plan cells on one host.

    Raises:
        PreflightRefused: A check failed for one of them.
        HostUnreachable: The host does not answer.
    """
    session = asked.sessions[host]
    order = _order(asked, session)
    if session.host.batch is None:
        order = dataclasses.replace(
            order, at_once=cells_at_once(asked.database, asked.name, host, len(cells), parallel)
        )
    with session.remembering(), hashing_once():
        plans = [_plan(asked, session, cell, order) for cell in cells]
    for cell, plan in zip(cells, plans, strict=True):
        try:
            refuse_failures(plan.checks, host)
        except PreflightRefused as error:
            others = counted(len(cells) - 1, "other cell")
            error.message = f"cell {cell.number} ({cell.label}): {error.message} ({others} on this host)"
            raise
    if session.host.batch is not None:
        refuse_impossible(session, plans, parallel)
    return HostShare(session, parallel, plans)


def _order(asked: Asked, session: HostSession) -> Order:
    return Order(session, asked.home, asked.database, asked.profile, asked.title, sweep=asked.name)


def cells_at_once(database: Database, sweep: str, host: str, new: int, parallel: int) -> int:
    """How many cells of a sweep share a host's cores: new ones, with those that it was given before and still has."""
    before = sum(run.host == host and not run.ended for run in runs.of_sweep(database, sweep))
    return max(1, min(parallel, new + before))


def _plan(asked: Asked, session: HostSession, cell: Cell, order: Order | None = None) -> Plan:
    order = dataclasses.replace(order or _order(asked, session), name=f"{asked.title} {cell.label}")
    task = task_of(cell.experiment, order) if asked.task is None else asked.task(cell, order)
    plan = make_plan(task, run_id=run_id_of(asked.name, cell.number))
    section = SweepSection(id=asked.name, cell=cell.number, label=cell.label, values=dict(cell.values))
    spec = plan.spec.model_copy(update={"home": asking_home(session), "sweep": section})
    return dataclasses.replace(plan, spec=spec)
