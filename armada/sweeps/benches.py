"""A bench on a cluster as an array: each cell is a run of its own, with a bench of one cell."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from armada.errors import UsageError
from armada.launch.plans.bench import BenchTask
from armada.sweeps.cells import Cell
from armada.sweeps.planning import Asked

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from armada.launch.bench.grid import GridCell
    from armada.launch.plans.bench import Pace
    from armada.launch.plans.task import Order
    from armada.paths import HomePaths
    from armada.rpc.session import HostSession
    from armada.store.database import Database
    from armada.store.sweeps import SweepRecord

_KEY = "bench"
"""In the settings of a sweep that is one."""


@dataclasses.dataclass(frozen=True, slots=True)
class ArrayOrder:
    """Where a bench is measured, and what it is called.

    Attributes:
        name: Its id.
        title: What the user calls it.
        experiment: The file.
        session: With the cluster.
        profile: Its name, instead of the host's own.
        parallel: How many cells run at once; None for as many as the queue allows.
    """

    name: str
    title: str
    experiment: Path
    session: HostSession
    home: HomePaths
    database: Database
    profile: str | None = None
    parallel: int | None = None


def bench_array(order: ArrayOrder, cells: Sequence[GridCell], pace: Pace) -> Asked:
    """Ask for a sweep whose cells are benches of one cell.

    Raises:
        UsageError: The host has no batch system.
    """
    host = order.session.host
    if host.batch is None:
        words = f"{host.name} has no batch system: its cells are measured one after the other, in one run"
        raise UsageError(words, hint="leave --array out")
    by_number = {cell.number: cell for cell in cells}

    def task(cell: Cell, its: Order) -> BenchTask:
        return BenchTask([by_number[cell.number]], its, pace)

    return Asked(
        name=order.name,
        title=order.title,
        experiment=order.experiment,
        cells=[Cell(each.number, each.values, each.label, each.experiment) for each in cells],
        sessions={host.name: order.session},
        home=order.home,
        database=order.database,
        profile=order.profile,
        parallel=order.parallel,
        settings={
            "sweep": {},
            "parallel": order.parallel,
            "profile": order.profile,
            _KEY: {"pace": dataclasses.asdict(pace), "machine": [dict(each.machine) for each in cells]},
        },
        task=task,
    )


def is_bench(record: SweepRecord) -> bool:
    """Whether a sweep is a bench, whose cells are measured and not trained."""
    return isinstance(record.settings.get(_KEY), dict)
