"""`scheduler.*`: what a batch system would say to a job, and what it has room for."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from armada.protocol.message import (
    EMPTY,
    MAY_MISS,
    Count,
    CountOrZero,
    Fitting,
    Line,
    Many,
    Message,
    OnMisfit,
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
    state: UnsaidOrNull[Annotated[str, line(20)]] = None
    time_limit: UnsaidOrNull[Annotated[str, line(40)]] = None
    nodes: CountOrZero = 0
    cpus: CountOrZero = 0
    cpus_free: CountOrZero = 0
    gpus: CountOrZero = 0
    gpus_free: CountOrZero = 0


class ClusterQueue(Message):
    """What a cluster has room for, who waits in it, and what is left of one's allowance."""

    time: Unsaid[UnixTime] = None
    partitions: Annotated[Fitting[Partition], EMPTY] = ()
    mine: Annotated[dict[Text, Count], OnMisfit(default={})] = Field(default_factory=dict)
    others: Annotated[dict[Text, Count], OnMisfit(default={})] = Field(default_factory=dict)
    quota: UnsaidOrNull[Text] = None
    error: UnsaidOrNull[Line] = None


class AskQueue(Request[ClusterQueue]):
    """Ask a batch system what it has room for, or take what it said `no_older_than_s` ago."""

    method = "scheduler.queue"
    answer = ClusterQueue
    scheduler: BatchSystem
    quota: Annotated[Many[str] | None, MAY_MISS] = None
    no_older_than_s: Annotated[Seconds, MAY_MISS] = 120.0
