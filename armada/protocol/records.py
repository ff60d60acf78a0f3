"""Records in a run's folder and about it: processes, jobs, states, attempts.

Jobs, old supervisors and broken disks write here, so an invalid field is read as missing.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from armada.protocol.message import (
    EMPTY,
    MAY_MISS,
    Count,
    Digest,
    Fitting,
    Flag,
    Integer,
    Line,
    ManyOrNone,
    Message,
    OnMisfit,
    Positive,
    Reason,
    Seconds,
    Size,
    Text,
    UnixTime,
    Unsaid,
    UnsaidOrNull,
    any_word,
    line,
    word,
)

STATE_WORDS = ("queued", "running", "succeeded", "failed", "cancelled")
END_WORDS = ("succeeded", "failed", "cancelled")

StateWord = Annotated[str, any_word(*STATE_WORDS)]
"""A state that a supervisor writes. An unknown word of a newer supervisor is kept, so that the verdict can name it."""

Phase = Annotated[
    str, any_word("loading", "preparing", "training", "evaluating", "saving", "merging", "running", "ended")
]
Nodes = Annotated[str, line(100)]


class Identity(Message):
    """One process of one boot of one machine or container. `start_time` is field 22 of /proc/<pid>/stat."""

    hostname: Text
    boot_id: Text
    pid_namespace: Text
    init_start: Text
    pid: Integer
    start_time: Text


class ArrayPlace(Message):
    """Which job of an array runs a cell of a sweep: the number of the array in its sweep, and the job's index in it."""

    sweep: Unsaid[Line] = None
    number: Unsaid[Positive] = None
    index: Unsaid[Count] = None


class Job(Message):
    """What runs a submission: armada's own supervisor (`direct`), or a batch system's job."""

    model_config = ConfigDict(
        json_schema_extra={
            "oneOf": [
                {"properties": {"scheduler": {"const": "direct"}}, "required": ["supervisor"]},
                {"properties": {"scheduler": {"enum": ["slurm", "htcondor"]}}, "required": ["job_id", "name"]},
            ]
        }
    )

    submission: Unsaid[Positive] = None
    scheduler: Unsaid[Annotated[str, any_word("direct", "slurm", "htcondor")]] = None
    time: Unsaid[UnixTime] = None
    supervisor: Annotated[Unsaid[Identity], MAY_MISS] = None
    guardian: Annotated[UnsaidOrNull[Identity], MAY_MISS] = None
    job_id: Annotated[Unsaid[Line], MAY_MISS] = None
    name: Annotated[Unsaid[Line], MAY_MISS] = None
    array: Annotated[UnsaidOrNull[ArrayPlace], MAY_MISS] = None


class Heartbeat(Message):
    """The progress of one process of a job, as the process reports it."""

    rank: Unsaid[Count] = None
    phase: Unsaid[Phase] = None
    step: UnsaidOrNull[Count] = None
    total_steps: UnsaidOrNull[Count] = None
    time: Unsaid[UnixTime] = None
    attempt: Annotated[Unsaid[Count], MAY_MISS] = None


class State(Message):
    """state.json: the supervisor's last state. `seq` orders its updates within an attempt."""

    state: Unsaid[StateWord] = None
    reason: UnsaidOrNull[Reason] = None
    message: UnsaidOrNull[Text] = None
    submission: Unsaid[Count] = None
    attempt: Unsaid[Count] = None
    gpus: Unsaid[Fitting[Count]] = None
    exit_code: UnsaidOrNull[Integer] = None
    signal: UnsaidOrNull[Integer] = None
    queued_at: UnsaidOrNull[UnixTime] = None
    started_at: UnsaidOrNull[UnixTime] = None
    ended_at: UnsaidOrNull[UnixTime] = None
    seq: Unsaid[Count] = None


class OomKills(Message):
    """How many processes the kernel had killed for memory when the job started; None if unknown."""

    cgroup: UnsaidOrNull[Count] = None
    machine: UnsaidOrNull[Count] = None


class RunRecord(Message):
    """attempts/<n>/run.json: how an attempt began.

    `log_offset` is the size of output.log in bytes at the job's start. `clock_s` is CLOCK_MONOTONIC at that time, which
    the kernel's log uses.
    """

    attempt: Unsaid[Count] = None
    submission: Unsaid[Count] = None
    supervisor: Unsaid[Identity] = None
    process: Unsaid[Identity] = None
    started_at: Unsaid[UnixTime] = None
    gpus: ManyOrNone[Count] = ()
    log_offset: Annotated[Unsaid[Size], MAY_MISS] = None
    oom_kills: Annotated[Unsaid[OomKills], MAY_MISS] = None
    clock_s: Annotated[Unsaid[float], MAY_MISS] = None


class ExitRecord(Message):
    """attempts/<n>/exit.json: how an attempt ended.

    An agent of an older armada does not name its `submission`. `step_before` is the step of the newest whole checkpoint
    before the attempt, `step` the one after it; null: there was none.
    """

    attempt: Unsaid[Count] = None
    submission: Annotated[Unsaid[Count], MAY_MISS] = None
    exit_code: UnsaidOrNull[Integer] = None
    signal: UnsaidOrNull[Integer] = None
    state: Unsaid[Annotated[str, any_word(*END_WORDS, "requeued")]] = None
    reason: UnsaidOrNull[Reason] = None
    message: UnsaidOrNull[Text] = None
    ended_at: Unsaid[UnixTime] = None
    step_before: Annotated[UnsaidOrNull[Count], MAY_MISS] = None
    step: Annotated[UnsaidOrNull[Count], MAY_MISS] = None


class StatusRecord(Message):
    """attempts/<n>/status.json: how an attempt's job ended, before its last checkpoints are taken and its end is written."""

    format: Literal[1] = 1
    attempt: Unsaid[Count] = None
    submission: Unsaid[Count] = None
    exit_code: UnsaidOrNull[Integer] = None
    signal: UnsaidOrNull[Integer] = None
    ended_at: Unsaid[UnixTime] = None


class Attempt(Message):
    """The newest attempt of a run."""

    number: Unsaid[Count] = None
    run: UnsaidOrNull[RunRecord] = None
    exit: UnsaidOrNull[ExitRecord] = None


class Submission(Message):
    """The newest submission of a run: whether it was claimed, and what runs it."""

    number: Unsaid[Count] = None
    claimed: Flag = False
    job: Annotated[Job | None, OnMisfit(default=Job(), null=True)] = None
    """What runs it; None if nothing does. An unreadable record still counts as a job."""


class SchedulerStatus(Message):
    """The answer of the host's batch system about the newest submission."""

    state: Annotated[str, word("pending", "held", "running", "ending", "ended", "gone", "unknown")] = "unknown"
    seen_at: UnsaidOrNull[UnixTime] = None
    detail: UnsaidOrNull[Annotated[str, line(60)]] = None
    reason: UnsaidOrNull[Reason] = None
    message: UnsaidOrNull[Text] = None
    node: UnsaidOrNull[Nodes] = None
    error: UnsaidOrNull[Line] = None


class Evidence(Message):
    """The evidence that a host has about a run: records and processes, no conclusions.

    `supervisor`: `none` if no supervisor has started, `unknown` if it is on another machine or its record is damaged.
    `may_have_succeeded` is about a job that ended without a recorded exit. `stopped` lists processes of the run,
    including its supervisor, that SIGSTOP has suspended. `written_at` is when `state` was written, by the file system's
    clock: that of the worker that wrote it may be wrong. `untouched_s` is about a job without a living supervisor: the
    seconds since it or its supervisor last wrote a file. `lacks_end`: its job ended, its supervisor died before it wrote
    that, and the host completes it. `refused`: a later submission than the newest one was claimed, and its batch system
    refused it; older agents do not say.
    """

    submission: UnsaidOrNull[Submission] = None
    refused: Annotated[UnsaidOrNull[Positive], MAY_MISS] = None
    supervisor: Annotated[str, word("alive", "dead", "none", "unknown")] = "unknown"
    stop_wished: Annotated[Flag, MAY_MISS] = False
    lacks_end: Annotated[Flag, MAY_MISS] = False
    may_have_succeeded: Annotated[UnsaidOrNull[bool], MAY_MISS] = None
    rebooted: Flag = False
    state: UnsaidOrNull[State] = None
    attempt: UnsaidOrNull[Attempt] = None
    processes: Unsaid[Count] = 0
    heartbeat: UnsaidOrNull[Heartbeat] = None
    scheduler: UnsaidOrNull[SchedulerStatus] = None
    quiet_s: Annotated[UnsaidOrNull[Seconds], MAY_MISS] = None
    untouched_s: Annotated[UnsaidOrNull[Seconds], MAY_MISS] = None
    written_at: Annotated[UnsaidOrNull[UnixTime], MAY_MISS] = None
    stopped: Annotated[Fitting[Positive], EMPTY, MAY_MISS] = ()


class Checkpoint(Message):
    """A finished checkpoint in a host's outbox. `attempt`: the run's attempt that wrote it first; older agents do not say it."""

    digest: Digest
    step: Count
    size_bytes: Size
    file_count: Count
    created_at: Annotated[float, Field(ge=0, lt=1 << 62)]
    attempt: Annotated[Unsaid[Count], MAY_MISS] = None
    acknowledged: Flag = False
