"""`sweep.*`: hand over many runs in one request."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from armada.protocol.homes import AskingHome
from armada.protocol.message import (
    EMPTY,
    MAY_MISS,
    Count,
    Fitting,
    Many,
    Message,
    Positive,
    Request,
    RunId,
    Text,
    UnsaidOrNull,
    line,
    word,
)
from armada.protocol.runs import Secrets
from armada.protocol.spec import Spec


class SweepCell(Message):
    """One run of a sweep, as `run.create` takes it."""

    run_id: RunId
    spec: Spec
    files: dict[Annotated[str, Field(pattern=r"^launch/[A-Za-z0-9_][A-Za-z0-9._-]*$")], Text]


class SweepArray(Message):
    """Cells that a batch system is to get as one array of jobs, and the files for it."""

    cells: Many[RunId]
    files: dict[Annotated[str, Field(pattern=r"^job\.[a-z]{2,8}$")], Text]


class TakenCell(Message):
    """What became of one cell: claimed now, by an earlier request, stopped before it was claimed, or only created."""

    run_id: RunId
    outcome: Annotated[str, word("claimed", "already", "cancelled", "created")]


class TakenArray(Message):
    """An array that a batch system has now: its id, how many cells it has, and how many of them run at once."""

    job_id: Annotated[str, line(60)]
    cells: Count
    limit: UnsaidOrNull[Count] = None


class TakenCells(Message):
    """All cells of the request are on the host. Of cells that a batch system gets, those of its arrays are listed."""

    cells: Many[TakenCell]
    arrays: Annotated[Fitting[TakenArray], EMPTY, MAY_MISS] = ()


class StartSweep(Request[TakenCells]):
    """Create the cells of a sweep and have them started, at most `parallel` of the sweep at once on this host.

    A batch system gets the cells of `arrays`, which this request or an earlier one creates; without `arrays`, more cells
    are to follow, and nothing is submitted.
    """

    method = "sweep.start"
    answer = TakenCells
    sweep: RunId
    parallel: Positive
    cells: Annotated[Many[SweepCell], Field(max_length=1000)]
    secrets: Annotated[Secrets, MAY_MISS] = Field(default_factory=dict)
    home: Annotated[AskingHome | None, MAY_MISS] = None
    arrays: Annotated[Many[SweepArray] | None, MAY_MISS] = None


class TendedSweep(Message):
    """How many cells of a sweep wait for their start on this host."""

    sweep: RunId
    waiting: Count


class TendedSweeps(Message):
    """The asked sweeps that are on this host."""

    sweeps: Many[TendedSweep]


class TendSweeps(Request[TendedSweeps]):
    """Start the dispatchers of sweeps whose cells wait for one."""

    method = "sweep.tend"
    answer = TendedSweeps
    sweeps: Annotated[Many[RunId], Field(max_length=200)]
