"""`sync.*` and `file.read`: what of runs may come home, and the bytes of it."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from armada.protocol.homes import AskingHome, EnrolledHome
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
    OrMissing,
    Request,
    RootId,
    RunId,
    Size,
    Text,
    Unsaid,
    UnsaidOrNull,
    text_of,
)
from armada.protocol.observation import Wipe
from armada.protocol.records import Checkpoint


class Output(Message):
    """A file of a run that a pattern of its experiment's `sync.outputs` covers."""

    path: Text
    size_bytes: Size
    mtime: float


class OtherFiles(Message):
    """The files of a run that no pattern covers; `files` holds the path and size of the first, where they were asked for."""

    count: Unsaid[Count] = None
    size_bytes: Unsaid[Size] = None
    examples: Fitting[Line] = ()
    files: Annotated[Fitting[Annotated[tuple[Text, Size], Field(strict=False)]], Field(max_length=2000), MAY_MISS] = ()


class RunListing(Message):
    """What of one run may come home.

    `problem` says why nothing whole can be said of this run; `truncated` is true then. `manifests` holds files byte for byte.
    `submission` is the newest, 0 before the first: a home that knows an older one has not seen all there will be.
    """

    run_id: RunId
    exists: bool
    outbox: Fitting[Checkpoint] = ()
    announced: Unsaid[Count] = None
    finishing: Unsaid[Count] = None
    submission: Unsaid[Count] = None
    outputs: Annotated[Fitting[Output], EMPTY] = ()
    truncated: Flag = False
    others: Unsaid[OtherFiles] = None
    problem: OrMissing[Line] = None
    homes: Fitting[EnrolledHome] = ()
    manifests: Annotated[dict[Digest, Annotated[str, text_of(1 << 16)]], MAY_MISS] = Field(default_factory=dict)


class Listings(Message):
    """The answer: a run whose part does not fit is refused alone."""

    root: UnsaidOrNull[RootId] = None
    runs: Entries[RunListing]
    wiped: Annotated[Fitting[Wipe], EMPTY] = ()


class RunToList(Message):
    """A run to list: patterns of outputs, and of how many checkpoints the manifests shall come along."""

    run_id: RunId
    outputs: Annotated[Many[str], Field(max_length=100), MAY_MISS] = ()
    list_others: Annotated[bool, MAY_MISS] = False
    manifests: Annotated[Count, MAY_MISS] = 0


class ListOutboxes(Request[Listings]):
    """List what of runs may come home."""

    method = "sync.look"
    answer = Listings
    runs: Annotated[Many[RunToList], Field(max_length=1000)]
    home: OrMissing[AskingHome] = None


class Hashes(Message):
    """The SHA-256 of each file asked for, in their order; None where there is none."""

    sha256: Many[Digest | None]


class HashFiles(Request[Hashes]):
    """Hash files of a run: each a path and a size, and where it begins."""

    method = "sync.hash"
    answer = Hashes
    run_id: RunId
    files: Many[Annotated[tuple[Text | int, ...], Field(strict=False, min_length=2, max_length=3)]]


class BlockSize(Message):
    """How many bytes follow the answer's line."""

    size_bytes: Size


class ReadFile(Request[BlockSize]):
    """Read a block of a file of a run; the line of the answer is followed by exactly `size_bytes` bytes of it."""

    method = "file.read"
    answer = BlockSize
    run_id: RunId
    path: Text
    offset: Size
    length: Size
