"""`sweep.*`: hand over many runs in one request."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from armada.protocol.homes import AskingHome
from armada.protocol.message import MAY_MISS, Count, Many, Message, Positive, Request, RunId, Text, word
from armada.protocol.runs import Secrets
from armada.protocol.spec import Spec


class SweepCell(Message):
    """One run of a sweep, as `run.create` takes it."""

    run_id: RunId
    spec: Spec
    files: dict[Annotated[str, Field(pattern=r"^launch/[A-Za-z0-9_][A-Za-z0-9._-]*$")], Text]


class TakenCell(Message):
    """What became of one cell: claimed now, by an earlier request, or stopped before it was claimed."""

    run_id: RunId
    outcome: Annotated[str, word("claimed", "already", "cancelled")]


class TakenCells(Message):
    """All cells of the request are on the host."""

    cells: Many[TakenCell]


class StartSweep(Request[TakenCells]):
    """Create the cells of a sweep and have them started, at most `parallel` of the sweep at once on this host."""

    method = "sweep.start"
    answer = TakenCells
    sweep: RunId
    parallel: Positive
    cells: Annotated[Many[SweepCell], Field(max_length=1000)]
    secrets: Annotated[Secrets, MAY_MISS] = Field(default_factory=dict)
    home: Annotated[AskingHome | None, MAY_MISS] = None


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
