"""`run.*` but `run.observe`: hand over, stop, remove and list runs, and read what they printed."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from armada.protocol.homes import AskingHome
from armada.protocol.message import (
    MAY_MISS,
    Count,
    Entries,
    Line,
    Many,
    Message,
    OrMissing,
    Positive,
    Request,
    RunId,
    Seconds,
    Size,
    Text,
    UnixTime,
    any_word,
    line,
    word,
)
from armada.protocol.records import Job

Secrets = dict[str, Text]


class Submitted(Message):
    """A submission was handed over, now or before."""

    outcome: Annotated[str, word("started", "already")]
    job: Job


class Created(Message):
    """A run's folder is there; `submitted` where that was asked for in the same breath."""

    path: Text
    created: bool
    submitted: OrMissing[Submitted] = None


class SubmitRun(Request[Submitted]):
    """Hand over one more submission of a run.

    `secrets` are for a submission after the first, whose own were deleted at its end. `keep_secrets`: the submission before was
    lost without an end, and its secrets must still be there.
    """

    method = "run.submit"
    answer = Submitted
    run_id: RunId
    submission: Positive
    secrets: OrMissing[Secrets] = None
    keep_secrets: Annotated[bool, MAY_MISS] = False


class LogPiece(Message):
    """A piece of a job's output; offsets count bytes."""

    offset: Size
    text: Text
    next_offset: Size
    size_bytes: Size


class ReadLog(Request[LogPiece]):
    """Read a job's output from an offset, or its last lines."""

    method = "run.log"
    answer = LogPiece
    run_id: RunId
    offset: Annotated[Size, MAY_MISS] = 0
    tail_lines: Annotated[Count | None, MAY_MISS] = None
    limit_bytes: Annotated[int, Field(ge=4), MAY_MISS] = 65536


class Stopping(Message):
    """What became of a request to stop.

    `problem`: why the batch system could not be told; the request stands, and the run's supervisor reads it.
    """

    outcome: Annotated[str, word("stopping", "already_ended", "cancelled_before_start")]
    submission: Annotated[Count | None, MAY_MISS] = None
    problem: OrMissing[Line] = None


class StopRun(Request[Stopping]):
    """Stop a run.

    `root` names the root that the run was put into; where the run's folder is gone from that very root, its processes are ended.
    """

    method = "run.stop"
    answer = Stopping
    run_id: RunId
    grace_s: Seconds
    root: Annotated[str | None, MAY_MISS] = None


class Done(Message):
    """The host did it; there is nothing to say."""


class RemoveRun(Request[Done]):
    """Delete a run's folder. `despite_homes`: a person knows what other homes have not fetched."""

    method = "run.remove"
    answer = Done
    run_id: RunId
    home: OrMissing[AskingHome] = None
    despite_homes: Annotated[bool, MAY_MISS] = False


class StoredSpec(Message):
    """A run's spec.json as it lies there, unchecked; `problem` says why there is none."""

    run_id: RunId
    spec: dict[str, object] | None
    problem: Annotated[str, line(200)] | None = None


class StoredSpecs(Message):
    """The plans of runs; an answer carries as many as fit."""

    specs: Entries[StoredSpec]


class ReadSpecs(Request[StoredSpecs]):
    """Read the plans of runs."""

    method = "run.specs"
    answer = StoredSpecs
    run_ids: Annotated[Many[RunId], Field(max_length=200)]


class ListedRun(Message):
    """A run's folder, and what its own record says."""

    run_id: RunId
    state: Annotated[
        str,
        any_word("preparing", "submitted", "queued", "running", "succeeded", "failed", "cancelled", "unknown"),
    ] = "unknown"
    submission: Count | None = None
    created_at: float | Text | None = None


class ListedRuns(Message):
    """All runs of a host."""

    runs: Entries[ListedRun]


class ListRuns(Request[ListedRuns]):
    """List all runs of a host."""

    method = "run.list"
    answer = ListedRuns


class Explanation(Message):
    """What a batch system says at length about a run."""

    text: Text


class ExplainRun(Request[Explanation]):
    """Ask a batch system what it knows of a run."""

    method = "run.explain"
    answer = Explanation
    run_id: RunId


class Allowance(Message):
    """What was left of an allowance: what the site's command printed, or why it could not be asked."""

    time: UnixTime
    text: Text
    answered: bool


class Quota(Message):
    """What was left before a run and after it."""

    submission: Count | None = None
    before: Allowance | None = None
    after: Allowance | None = None


class AskQuota(Request[Quota]):
    """Ask what was left of an allowance before and after a run."""

    method = "run.quota"
    answer = Quota
    run_id: RunId
