"""`host.orphans`: processes of runs that no supervisor looks after."""

from __future__ import annotations

from typing import Annotated

from armada.protocol.message import (
    EMPTY,
    MAY_MISS,
    Count,
    Fitting,
    Many,
    Message,
    Request,
    RootId,
    RunId,
    Seconds,
    Text,
    UnsaidOrNull,
)
from armada.protocol.observation import Wipe


class OrphanProcess(Message):
    """A process that lives: its name as `ps` shows it, its age in seconds, and the indices of the GPUs that it uses."""

    pid: Count
    name: Text
    age_s: Seconds
    gpus: Many[Count]


class OrphansOfRun(Message):
    """Processes of a run that no supervisor looks after.

    `exists`: the run's folder is seen. `has_ended`: its newest submission has; null if its records cannot be read.
    `count`: the number of processes; at most 50 are listed.
    """

    run_id: RunId
    exists: bool
    has_ended: bool | None
    count: Count
    processes: Many[OrphanProcess]


class Orphans(Message):
    """The runs with such processes on this machine, how many more there are, and the root's id and earlier ones."""

    root: UnsaidOrNull[RootId] = None
    wiped: Annotated[Fitting[Wipe], EMPTY] = ()
    runs: Fitting[OrphansOfRun]
    more: Count


class ListOrphans(Request[Orphans]):
    """List processes of runs that no supervisor looks after. Those of the runs in `also` are listed in any case."""

    method = "host.orphans"
    answer = Orphans
    also: Annotated[tuple[RunId, ...], MAY_MISS] = ()
