"""Files that supervisors, agents and jobs write on a host, except those in `records`."""

from __future__ import annotations

import json
from typing import Annotated, Literal

from pydantic import Field

from armada.protocol.host import GpuLoad
from armada.protocol.message import (
    EMPTY,
    MAY_MISS,
    Count,
    Digest,
    EnvironmentKey,
    Fitting,
    HomeId,
    Integer,
    Line,
    Many,
    Message,
    Positive,
    Reason,
    RelativePath,
    RunId,
    Seconds,
    Size,
    Text,
    UnixTime,
    Unsaid,
    UnsaidOrNull,
    line,
)
from armada.protocol.records import StateWord
from armada.protocol.runs import Allowance

CheckpointKind = Literal["periodic", "final"]


class Event(Message):
    """A line of events.jsonl, of any kind. Only the supervisor writes it, or the process that cleans up after a dead one."""

    open_ended = True
    seq: Unsaid[Positive] = None
    time: Unsaid[UnixTime] = None
    attempt: Unsaid[Count] = None
    kind: Unsaid[Annotated[str, line(100)]] = None


class StateEvent(Event):
    """A run's state changed."""

    open_ended = False
    kind: Literal["state"] = "state"
    state: StateWord
    reason: UnsaidOrNull[Reason] = None
    message: UnsaidOrNull[Text] = None


class CheckpointEvent(Event):
    """A checkpoint is in the outbox."""

    open_ended = False
    kind: Literal["checkpoint"] = "checkpoint"
    digest: Digest
    step: Count
    final: bool
    size_bytes: Size
    file_count: Count


class ThinnedEvent(Event):
    """A checkpoint was deleted from the outbox."""

    open_ended = False
    kind: Literal["thinned"] = "thinned"
    digest: Digest
    step: Count
    acknowledged: bool
    message: UnsaidOrNull[Text] = None


class FindingEvent(Event):
    """Something that the user may want to know."""

    open_ended = False
    kind: Literal["finding"] = "finding"
    message: Unsaid[Annotated[str, line(300)]] = None


class Complaint(Message):
    """The error of another rank. It is not the cause of the failure."""

    rank: UnsaidOrNull[Count] = None
    message: Unsaid[Annotated[str, line(300)]] = None


class FailureEvent(Event):
    """An attempt failed. `rank` failed first; `lines` are its last lines of output.

    `submission` is the submission of the attempt; the first release does not write it.
    """

    open_ended = False
    kind: Literal["failure"] = "failure"
    submission: Annotated[Unsaid[Positive], MAY_MISS] = None
    reason: UnsaidOrNull[Reason] = None
    message: UnsaidOrNull[Text] = None
    rank: UnsaidOrNull[Count] = None
    lines: Annotated[Fitting[Annotated[str, line(400)]], EMPTY] = ()
    others: Annotated[Fitting[Complaint], EMPTY] = ()
    exit_code: UnsaidOrNull[Integer] = None
    signal: UnsaidOrNull[Integer] = None


def read_event(text: str) -> Event:
    """Parse a line of events.jsonl. If a field that its kind requires is missing, return an `Event` with the common fields.

    Raises:
        ValueError: The line is not a JSON object.
    """
    value = json.loads(text)
    kind = value.get("kind") if isinstance(value, dict) else None
    models: dict[object, type[Event]] = {"failure": FailureEvent, "finding": FindingEvent}
    return models.get(kind if isinstance(kind, str) else None, Event).model_validate(value)


AnyEvent = StateEvent | CheckpointEvent | ThinnedEvent | FindingEvent | FailureEvent


class MetricsLine(Message):
    """A line of metrics.jsonl. Each additional number in it is a point of a curve.

    `source`: where the supervisor found it, for jobs that do not write this file. `steps` is `counted` if the job gave
    no step. A
    `reset` deletes the points of the curves in `names`.
    """

    open_ended = True
    kind: Literal["train", "eval", "summary", "reset"]
    step: Count
    time: UnixTime
    attempt: Count
    source: Annotated[Text, MAY_MISS] = ""
    steps: Annotated[Text, MAY_MISS] = ""


class TelemetryLine(Message):
    """A line of telemetry.jsonl."""

    time: UnixTime
    gpus: Many[GpuLoad]
    load1: float
    memory_used_bytes: Size | None


class StopRequest(Message):
    """stop.json. `submission` is the newest one at the time of the request; null: there was none, and none may start."""

    time: UnixTime
    grace_s: Seconds
    submission: Count | None
    budget: Annotated[Text | None, MAY_MISS] = None
    reason: Annotated[Reason | None, MAY_MISS] = None
    message: Annotated[Text | None, MAY_MISS] = None


class Claim(Message):
    """submissions/<k>/claim.json: which process may submit this submission."""

    time: UnixTime
    by: Text


class FailureRecord(Message):
    """failure.json, from a job that knows why it failed. `lines` are from its traceback, the exception last."""

    open_ended = True
    reason: Annotated[str, Field(pattern=r"^(signal_[A-Z0-9+]+|[a-z0-9_]{1,64})$")]
    message: Text | None
    rank: Annotated[Count | None, MAY_MISS] = None
    lines: Annotated[Many[Text], MAY_MISS] = ()


class Announcement(Message):
    """.announce.json: a job announces that a checkpoint is complete."""

    step: Count
    kind: Annotated[CheckpointKind, MAY_MISS] = "periodic"
    time: Annotated[UnixTime, MAY_MISS] = 0.0
    metrics: Annotated[dict[str, object], MAY_MISS] = Field(default_factory=dict)
    size_bytes: Annotated[Size, MAY_MISS] = 0


class ManifestFile(Message):
    """A file of a checkpoint."""

    path: RelativePath
    size: Size
    sha256: Digest


class ManifestRecord(Message):
    """MANIFEST.json: the content of a checkpoint."""

    format: Literal[1]
    run_id: RunId
    attempt: Count
    step: Count
    kind: CheckpointKind
    created_at: UnixTime
    metrics: dict[str, object]
    files: Many[ManifestFile]


class Dated(Message):
    """A record that contains only the time at which it was written."""

    time: UnixTime


class EnvironmentReady(Message):
    """envs/<key>/READY: an environment is complete.

    `built_on`: the hostname of the machine that built or unpacked it. `origin`: the hostname of the machine that it was
    sent from.
    """

    key: EnvironmentKey
    python: Text
    time: UnixTime
    freeze: Text | None
    notes: Annotated[Many[Line], MAY_MISS] = ()
    built_on: Annotated[Text | None, MAY_MISS] = None
    origin: Annotated[Text | None, MAY_MISS] = None


class CheckpointWatch(Message):
    """harvest.json: the files that match a plan's pattern and were taken as checkpoints.

    `origins`, by the SHA-256 of step and files: the attempt and unix time of a checkpoint's first occurrence. `outside`:
    matches, and links in them, that led out of the work folder, and so were not taken. `failed`: matches that could not be
    read or copied, with their signature and the unix time up to which links count, or null.
    """

    count: Count
    copies: bool
    taken: Many[dict[str, object]]
    left: dict[str, Text]
    came: Annotated[dict[str, Text], MAY_MISS] = Field(default_factory=dict)
    origins: Annotated[
        dict[str, Annotated[Many[float], Field(min_length=2, max_length=2)]],
        EMPTY,
        MAY_MISS,
    ] = Field(default_factory=dict)
    outside: Annotated[Many[Text], MAY_MISS] = ()
    failed: Annotated[dict[str, Many[Text | float | None]], MAY_MISS] = Field(default_factory=dict)


class MetricsWatch(Message):
    """curves.json: the position in each source of a script's or command's metrics up to which the supervisor has read.

    `recorder`: the length of metrics.jsonl at that time, and the findings that were already reported.
    """

    attempt: Count
    recorder: dict[str, object]
    sources: dict[str, object]


class QuotaRecord(Message):
    """submissions/<k>/quota.json: the rest of an allowance."""

    command: Many[Text]
    before: Allowance | None
    after: Allowance | None


class HomeRecord(Message):
    """homes/<home>/home.json: a home that is registered for the run."""

    id: HomeId
    label: Text
    path: Text
    time: UnixTime


class SettledRecord(Message):
    """homes/<home>/settled.json: a home has everything that it wants of a submission."""

    time: UnixTime
    submission: Count | None
    digests: Many[Digest]


class ForgottenRecord(Message):
    """homes/<home>/forgotten.json: the user declared that a home no longer exists."""

    time: UnixTime
    by: Text
