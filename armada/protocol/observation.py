"""`run.observe`: what a host shows about many runs at once."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from armada.protocol.message import (
    EMPTY,
    MAY_MISS,
    Count,
    Digest,
    Entries,
    Fitting,
    Flag,
    Line,
    Many,
    Message,
    Request,
    RootId,
    RunId,
    Seconds,
    Size,
    Text,
    UnixTime,
    Unsaid,
    UnsaidOrNull,
    line,
)
from armada.protocol.records import Checkpoint, Evidence


class Lines(Message):
    """Whole lines of a file; offsets count bytes. `offset`: where they begin, if not where home asked: the file was begun anew."""

    text: Text = ""
    next_offset: Size = 0
    offset: Annotated[Unsaid[Size], MAY_MISS] = None


class Moment(Message):
    """A monotonic time: seconds since a boot of a machine or container, and the boot's identity."""

    boot: Annotated[str, line(300)]
    seconds: Seconds


class Wipe(Message):
    """A former id of the root, who wiped that root, and when."""

    open_ended = True
    root: RootId
    time: Annotated[Unsaid[UnixTime], MAY_MISS] = None
    by: Annotated[Unsaid[Annotated[str, line(200)]], MAY_MISS] = None


class Remains(Message):
    """What remains of a run whose folder is missing: its processes, and whether other machines share the file system.

    `attempt` and `submission` are the newest that the processes belong to; 0: they name none.
    """

    processes: Unsaid[Count] = None
    is_shared: Flag = False
    attempt: Annotated[Unsaid[Count], MAY_MISS] = None
    submission: Annotated[Unsaid[Count], MAY_MISS] = None


class Observation(Message):
    """What a host shows of one run. `findings`: what could not be read; `unreadable`: checkpoints whose manifest cannot be."""

    run_id: RunId
    exists: bool
    evidence: Evidence | None = None
    findings: Many[Line] = ()
    metrics: Unsaid[Lines] = None
    events: Unsaid[Lines] = None
    outbox: Fitting[Checkpoint] = ()
    unreadable: Annotated[Fitting[Digest], MAY_MISS] = ()
    log_size_bytes: Unsaid[Size] = None
    remains: Annotated[Unsaid[Remains], MAY_MISS] = None


class Observations(Message):
    """The answer; an invalid entry is refused alone, and the other runs are kept."""

    time: Unsaid[UnixTime] = None
    root: UnsaidOrNull[RootId] = None
    moment: Unsaid[Moment] = None
    runs: Entries[Observation]
    wiped: Annotated[Fitting[Wipe], EMPTY] = ()


class ObservedRun(Message):
    """A run to observe, and how far its files have been read."""

    run_id: RunId
    metrics_offset: Size
    events_offset: Size


class Observe(Request[Observations]):
    """Observe runs."""

    method = "run.observe"
    answer = Observations
    runs: Annotated[Many[ObservedRun], Field(max_length=1000)]
    limit_bytes: Annotated[int, Field(ge=1024), MAY_MISS] = 65536
