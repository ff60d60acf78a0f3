"""`scheduler.*`: a batch system's opinion of a job, and its free resources."""

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
    """Why a job could never run (`refusal`), or why it could not start now (`wait`) and when it is expected to start."""

    refusal: Text | None
    wait: Text | None
    starts_in_s: UnsaidOrNull[float]


class CheckJob(Request[SchedulerOpinion]):
    """Check a job file with the batch system."""

    method = "scheduler.check"
    answer = SchedulerOpinion
    scheduler: BatchSystem
    file: str


class Partition(Message):
    """A part of a cluster: a partition of Slurm, or a kind of worker of HTCondor."""

    name: Annotated[str, line(60)]
    state: UnsaidOrNull[Annotated[str, line(20)]] = None
    time_limit: UnsaidOrNull[Annotated[str, line(40)]] = None
    nodes: CountOrZero = 0
    cpus: CountOrZero = 0
    cpus_free: CountOrZero = 0
    gpus: CountOrZero = 0
    gpus_free: CountOrZero = 0


class ClusterQueue(Message):
    """The free resources of a cluster, its waiting jobs, and the rest of the user's allowance."""

    time: Unsaid[UnixTime] = None
    partitions: Annotated[Fitting[Partition], EMPTY] = ()
    mine: Annotated[dict[Text, Count], OnMisfit(default={})] = Field(default_factory=dict)
    others: Annotated[dict[Text, Count], OnMisfit(default={})] = Field(default_factory=dict)
    quota: UnsaidOrNull[Text] = None
    error: UnsaidOrNull[Line] = None


class AskQueue(Request[ClusterQueue]):
    """Return a batch system's free resources. An answer at most `no_older_than_s` seconds old is reused."""

    method = "scheduler.queue"
    answer = ClusterQueue
    scheduler: BatchSystem
    quota: Annotated[Many[str] | None, MAY_MISS] = None
    no_older_than_s: Annotated[Seconds, MAY_MISS] = 120.0
