"""`run.*` except `run.observe`: submit, stop, remove and list runs, and read their output."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from armada.protocol.homes import AskingHome
from armada.protocol.message import (
    MAY_MISS,
    Count,
    Digest,
    Entries,
    Line,
    Many,
    Message,
    OnMisfit,
    OrMissing,
    Positive,
    Reason,
    Request,
    RunId,
    Seconds,
    Size,
    Text,
    UnixTime,
    UnsaidOrNull,
    any_word,
    line,
    word,
)
from armada.protocol.records import Job

Secrets = dict[str, Text]


class Submitted(Message):
    """A submission was submitted, now or by an earlier request."""

    outcome: Annotated[str, word("started", "already")]
    job: Job


class Created(Message):
    """A run's folder exists; `submitted` if the request asked for that, too."""

    path: Text
    created: bool
    submitted: OrMissing[Submitted] = None


class SubmitRun(Request[Submitted]):
    """Submit a run once more.

    `secrets` replace what is there: those of the former submission were deleted at its end, or when it was refused; older
    agents ignore them for the first one. `keep_secrets`: the former submission was lost without an end, and its secrets
    must still be there.
    """

    method = "run.submit"
    answer = Submitted
    run_id: RunId
    submission: Positive
    secrets: OrMissing[Secrets] = None
    keep_secrets: Annotated[bool, MAY_MISS] = False


class LogPiece(Message):
    """Part of a job's output; offsets count bytes."""

    offset: Size
    text: Text
    next_offset: Size
    size_bytes: Size


class ReadLog(Request[LogPiece]):
    """Read a job's output from an offset on, or its last lines."""

    method = "run.log"
    answer = LogPiece
    run_id: RunId
    offset: Annotated[Size, MAY_MISS] = 0
    tail_lines: Annotated[Count | None, MAY_MISS] = None
    limit_bytes: Annotated[int, Field(ge=4), MAY_MISS] = 65536


class Stopping(Message):
    """The outcome of a request to stop.

    `problem`: why the batch system could not be reached. The request remains, and the run's supervisor reads it.
    """

    outcome: Annotated[str, word("stopping", "already_ended", "cancelled_before_start")]
    submission: Annotated[Count | None, MAY_MISS] = None
    problem: OrMissing[Line] = None


class StopRun(Request[Stopping]):
    """Stop a run.

    `root` is the id of the root where the run was created. If the run's folder is missing from that same root, its
    processes are ended. `budget`: which budget is spent, where that is why. `reason` and `message`: which rule of its sweep
    stops it, and why. A person's stop has none of them. `only_ended`: only processes that an ended run left are ended.
    """

    method = "run.stop"
    answer = Stopping
    run_id: RunId
    grace_s: Seconds
    root: Annotated[str | None, MAY_MISS] = None
    budget: Annotated[Text | None, MAY_MISS] = None
    reason: Annotated[Reason | None, MAY_MISS] = None
    message: Annotated[Text | None, MAY_MISS] = None
    only_ended: Annotated[bool, MAY_MISS] = False


class Done(Message):
    """The host has done it; the answer has no fields."""


class JudgedFolder(Message):
    """What home saw of a run's folder before it judged that nothing there would be lost.

    `checkpoints`: the digests of the finished ones, also of those that cannot be read. `announced`: how many others were
    not finished. `submission` and `attempt`: the newest ones, 0 before the first.
    """

    submission: OrMissing[Count] = None
    attempt: OrMissing[Count] = None
    checkpoints: Many[Digest]
    announced: Count


class RemoveRun(Request[Done]):
    """Delete a run's folder. `despite_homes`: the user accepts that other homes lose what they have not fetched.

    `judged`: the host refuses if it has something that home did not judge. Without it, the user accepts every loss, or
    the run was never submitted.
    """

    method = "run.remove"
    answer = Done
    run_id: RunId
    home: OrMissing[AskingHome] = None
    despite_homes: Annotated[bool, MAY_MISS] = False
    judged: OrMissing[JudgedFolder] = None


class StoredSpec(Message):
    """A run's spec.json, unchecked; `problem` says why it could not be read."""

    run_id: RunId
    spec: dict[str, object] | None
    problem: Annotated[str, line(200)] | None = None


class StoredSpecs(Message):
    """The plans of runs; one answer contains as many as fit."""

    specs: Entries[StoredSpec]


class ReadSpecs(Request[StoredSpecs]):
    """Read the plans of runs."""

    method = "run.specs"
    answer = StoredSpecs
    run_ids: Annotated[Many[RunId], Field(max_length=200)]


class ListedRun(Message):
    """A run's folder and its own record. A record that cannot be read hides no run: a host is released by this list."""

    run_id: RunId
    state: Annotated[
        str,
        any_word("preparing", "submitted", "queued", "running", "succeeded", "failed", "cancelled", "unknown"),
        OnMisfit(default="unknown"),
    ] = "unknown"
    submission: UnsaidOrNull[Count] = None
    created_at: UnsaidOrNull[float | Text] = None


class ListedRuns(Message):
    """All runs of a host. `strange`: names of what lies among their folders and is no run."""

    runs: Entries[ListedRun]
    strange: Annotated[Many[Line], MAY_MISS] = ()


class ListRuns(Request[ListedRuns]):
    """List all runs of a host."""

    method = "run.list"
    answer = ListedRuns


class Explanation(Message):
    """A batch system's detailed explanation of a run."""

    text: Text


class ExplainRun(Request[Explanation]):
    """Return a batch system's explanation of a run."""

    method = "run.explain"
    answer = Explanation
    run_id: RunId


class Allowance(Message):
    """The rest of an allowance: the output of the site's command, or why the command failed."""

    time: UnixTime
    text: Text
    answered: bool


class Quota(Message):
    """The rest of an allowance before and after a run."""

    submission: Count | None = None
    before: Allowance | None = None
    after: Allowance | None = None


class AskQuota(Request[Quota]):
    """Return the rest of an allowance before and after a run."""

    method = "run.quota"
    answer = Quota
    run_id: RunId
