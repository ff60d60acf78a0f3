"""`host.*` except `host.facts`: a host's load, its examination, and deletions there."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from armada.protocol.homes import AskingHome
from armada.protocol.message import (
    Count,
    Digest,
    Fitting,
    Line,
    Many,
    Message,
    OrMissing,
    Request,
    RootId,
    RunId,
    Size,
    Text,
    UnixTime,
    Unsaid,
    UnsaidOrNull,
)
from armada.protocol.records import Identity
from armada.protocol.runs import Done


class Disk(Message):
    """The file system of the root."""

    total_bytes: Size
    free_bytes: Size


class GpuLoad(Message):
    """The load of a GPU."""

    index: Count
    utilization: UnsaidOrNull[float] = None
    memory_used_bytes: UnsaidOrNull[Size] = None
    power_w: UnsaidOrNull[float] = None
    temperature_c: UnsaidOrNull[float] = None


class Load(Message):
    """The load of a host."""

    time: Unsaid[UnixTime] = None
    gpus: Fitting[GpuLoad] = ()
    load1: Unsaid[float] = None
    memory_used_bytes: UnsaidOrNull[Size] = None
    disk: Unsaid[Disk] = None


class AskLoad(Request[Load]):
    """Measure the load of a host."""

    method = "host.load"
    answer = Load


class ExaminedFolder(Message):
    """A folder and its file system."""

    path: Text
    kind: Text | None
    is_shared: bool
    options: Many[Text]
    is_writable: bool
    free_bytes: Size | None
    total_bytes: Size | None
    free_inodes: Size | None
    total_inodes: Size | None
    problem: Text | None
    has_locks: bool | None


class Leftovers(Message):
    """Temporary files that interrupted transfers and killed processes left."""

    count: Count
    size_bytes: Size
    names: Many[Text]


class Examination(Message):
    """What `armada doctor` checks on a host."""

    shell: Text | None
    umask: Annotated[str, Field(pattern=r"^0[0-7]{3}$")]
    variables: dict[str, Text]
    root: ExaminedFolder
    home: ExaminedFolder
    tmp: ExaminedFolder
    quota: Text | None
    max_sessions: int | None
    max_startups: Text | None
    ends_processes_at_logout: bool
    leftovers: Leftovers
    identity: Identity


class Examine(Request[Examination]):
    """Examine the configuration of a host."""

    method = "host.examine"
    answer = Examination


class Echo(Message):
    """How many bytes arrived, and how many follow this line."""

    time: UnixTime
    received_bytes: Size
    size_bytes: Size


class Probe(Request[Echo]):
    """Measure a link: exactly `send_bytes` random bytes follow the answer's line, at most 16 MiB."""

    method = "host.probe"
    answer = Echo
    send_bytes: Size
    padding: str


class ForgottenSecrets(Message):
    """The runs whose secrets were deleted, and those that still need their secrets."""

    removed: Many[RunId]
    kept: Many[RunId]


class ForgetSecrets(Request[ForgottenSecrets]):
    """Delete the secrets of runs that have ended; with `leaves`, of all that are not alive: nothing would be lost there.

    `runs`: those that home had listed when it judged that. What came since keeps its secrets until it has ended.
    """

    method = "host.forget_secrets"
    answer = ForgottenSecrets
    leaves: bool
    runs: OrMissing[Many[RunId]] = None


class Wiped(Message):
    """What was deleted below the root, what remains, and the root's id."""

    removed: Many[Line]
    left: Many[Line]
    root: Text | None = None


class JudgedRun(Message):
    """A run that home judged, and what it had then, as far as its host said it.

    `checkpoints`: the digests of the finished ones, also of those that cannot be read. `announced`: how many others were
    not finished. `submission` and `attempt`: the newest ones, 0 before the first.
    """

    run_id: RunId
    submission: OrMissing[Count] = None
    attempt: OrMissing[Count] = None
    checkpoints: OrMissing[Many[Digest]] = None
    announced: OrMissing[Count] = None


class WipeRoot(Request[Wiped]):
    """Delete all of armada's files on a host.

    `root`: the id of the root that home judged. `runs`: the runs that it judged there. The host refuses if it has another
    root, or a run that is not among them, or more of a run than is told of it. If `root` was wiped there already, and no
    run came since, the host answers as before: the first answer was lost.
    """

    method = "host.wipe"
    answer = Wiped
    home: OrMissing[AskingHome] = None
    root: OrMissing[RootId] = None
    runs: OrMissing[Many[JudgedRun]] = None


class ForgetWipe(Request[Done]):
    """Say that this home has recorded the wipes of `roots`: the host then deletes what told of them, unless others need it."""

    method = "host.forget_wipe"
    answer = Done
    roots: Many[RootId]
