"""`scheduler.*`: what a batch system would say to a job, and what it has room for."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from armada.protocol.message import (
    MAY_MISS,
    Count,
    Fitting,
    Line,
    Many,
    Message,
    Request,
    Seconds,
    Text,
    UnixTime,
    Unsaid,
    UnsaidOrNull,
    line,
)

BatchSystem = Literal["slurm", "htcondor"]


class SchedulerOpinion(Message):
    """Why a job could never run (`refusal`) or could not start now (`wait`), and when it is expected to start."""

    refusal: Text | None
    wait: Text | None
    starts_in_s: UnsaidOrNull[float]


class CheckJob(Request[SchedulerOpinion]):
    """Ask a batch system about a job file."""

    method = "scheduler.check"
    answer = SchedulerOpinion
    scheduler: BatchSystem
    file: str


class Partition(Message):
    """A part of a cluster: a partition of Slurm's, a kind of worker of HTCondor's."""

    name: Annotated[str, line(60)]
    state: Annotated[str, line(20)] | None = None
    time_limit: Annotated[str, line(40)] | None = None
    nodes: Count = 0
    cpus: Count = 0
    cpus_free: Count = 0
    gpus: Count = 0
    gpus_free: Count = 0


class ClusterQueue(Message):
    """What a cluster has room for, who waits in it, and what is left of one's allowance."""

    time: Unsaid[UnixTime] = None
    partitions: Fitting[Partition] = ()
    mine: dict[str, Count] = Field(default_factory=dict)
    others: dict[str, Count] = Field(default_factory=dict)
    quota: Text | None = None
    error: Line | None = None


class AskQueue(Request[ClusterQueue]):
    """Ask a batch system what it has room for, or take what it said `no_older_than_s` ago."""

    method = "scheduler.queue"
    answer = ClusterQueue
    scheduler: BatchSystem
    quota: Annotated[Many[str] | None, MAY_MISS] = None
    no_older_than_s: Annotated[Seconds, MAY_MISS] = 120.0
