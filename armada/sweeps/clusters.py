"""Cells on a batch system: how many it has room for, and in which arrays it gets them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from armada.errors import PreflightRefused
from armada.launch.engines.engine import array_files
from armada.monitor.queue import look_at_queue
from armada.protocol.sweeps import SweepArray
from armada.sweeps.cells import MOST_CELLS
from armada.units import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from armada.config.hosts import Host
    from armada.launch.plans.plan import Plan
    from armada.protocol.scheduler import ClusterQueue
    from armada.rpc.session import HostSession

NO_LIMIT = MOST_CELLS
"""How many cells run at once where the batch system alone decides."""

_STARTS_ALL_ARRAYS = ("htcondor",)
"""Batch systems that cannot start an array after another one."""


def ask_room(session: HostSession, plan: Plan) -> int:
    """Ask how many cells like this one a cluster could run at once if it were empty; at least 1.

    Raises:
        HostUnreachable: The host does not answer.
    """
    queue = look_at_queue(session)
    if queue is None:
        return 1
    return room_of(queue, session.host, plan.gpus, plan.experiment.resources.cpus or max(1, plan.spec.processes))


def room_of(queue: ClusterQueue, host: Host, gpus: int, cpus: int) -> int:
    """How many cells a cluster could run at once if it were empty; at least 1.

    Args:
        queue: What the cluster says about itself.
        host: Its settings, which may name a partition of Slurm.
        gpus: Of one cell.
        cpus: Of one cell; it counts for cells without GPUs.
    """
    partition = host.slurm.partition if host.slurm is not None else None
    parts = [part for part in queue.partitions if not partition or part.name in partition.split(",")]
    rooms = [part.gpus // gpus if gpus else part.cpus // max(1, cpus) for part in parts]
    # Partitions of Slurm share nodes; machines of HTCondor do not.
    room = sum(rooms) if host.scheduler == "htcondor" else max(rooms, default=0)
    return min(max(1, room), MOST_CELLS)


def make_arrays(session: HostSession, plans: Sequence[Plan]) -> tuple[SweepArray, ...]:
    """Put cells that request the same into one array, in their order."""
    found: dict[str, list[str]] = {}
    for plan in plans:
        files = array_files(plan.host, session.paths, plan.profile, plan.experiment, plan.spec)
        found.setdefault(json.dumps(files, sort_keys=True), []).append(plan.run_id)
    return tuple(SweepArray(cells=tuple(run_ids), files=json.loads(files)) for files, run_ids in found.items())


def refuse_impossible(session: HostSession, plans: Sequence[Plan], parallel: int) -> None:
    """Refuse a limit that the batch system cannot keep.

    Raises:
        PreflightRefused: There are more arrays than cells may run at once, and they cannot wait for each other.
    """
    host = session.host
    if host.scheduler not in _STARTS_ALL_ARRAYS or parallel >= len(plans):
        return
    arrays = len(make_arrays(session, plans))
    if arrays > parallel:
        raise PreflightRefused(
            f"the cells request {counted(arrays, 'different amount')} of resources, so {host.scheduler} gets "
            f"{counted(arrays, 'array')}, and at least one job of each runs: --parallel {parallel} cannot be kept",
            hint=f"--parallel {arrays}, or the same `resources:` in all cells",
            host=host.name,
        )
