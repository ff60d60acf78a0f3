"""`sync.*` and `file.read`: which files of runs may come home, and their content."""

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
    Integer,
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
    """A file of a run that matches a pattern of its experiment's `sync.outputs`.

    `ctime_us`: when the file last changed in any way, in microseconds, by the host's clock.
    """

    path: Text
    size_bytes: Size
    mtime: float
    ctime_us: Unsaid[Integer] = None


class OtherFiles(Message):
    """The files of a run that match no pattern. `files`: the paths and sizes of the first ones, if requested."""

    count: Unsaid[Count] = None
    size_bytes: Unsaid[Size] = None
    examples: Fitting[Line] = ()
    files: Annotated[Fitting[Annotated[tuple[Text, Size], Field(strict=False)]], Field(max_length=2000), MAY_MISS] = ()


class Outside(Message):
    """Checkpoints, and links in checkpoints, that lead out of the run's work folder: these do not come home."""

    count: Unsaid[Count] = None
    examples: Fitting[Line] = ()


class RunListing(Message):
    """The files of one run that may come home.

    `problem`: why the listing is incomplete; `truncated` is then true. `manifests` contains files byte for byte.
    `unreadable`: finished checkpoints whose manifest cannot be read; older agents do not name them.
    `unregistered`: why the host did not register the home that asks, and so keeps nothing for it; older agents do not say.
    `untaken`: checkpoints of a script that could not be read or copied when its job was gone; older agents do not say.
    `submission` is the newest one, 0 before the first: a home that knows an older number has not seen everything.
    `attempt` is the newest one when the listing began, 0 before the first; older agents do not say.
    """

    run_id: RunId
    exists: bool
    outbox: Fitting[Checkpoint] = ()
    unreadable: Annotated[Fitting[Digest], MAY_MISS] = ()
    announced: Unsaid[Count] = None
    finishing: Unsaid[Count] = None
    untaken: Annotated[Unsaid[Count], MAY_MISS] = None
    submission: Unsaid[Count] = None
    attempt: Annotated[Unsaid[Count], MAY_MISS] = None
    outputs: Annotated[Fitting[Output], EMPTY] = ()
    truncated: Flag = False
    others: Unsaid[OtherFiles] = None
    outside: Annotated[Unsaid[Outside], MAY_MISS] = None
    problem: OrMissing[Line] = None
    unregistered: OrMissing[Line] = None
    homes: Fitting[EnrolledHome] = ()
    manifests: Annotated[dict[Digest, Annotated[str, text_of(1 << 16)]], MAY_MISS] = Field(default_factory=dict)


class Listings(Message):
    """The answer; an invalid entry is refused alone, and the other runs are kept."""

    root: UnsaidOrNull[RootId] = None
    runs: Entries[RunListing]
    wiped: Annotated[Fitting[Wipe], EMPTY] = ()


class RunToList(Message):
    """A run to list: patterns of outputs, and for how many checkpoints the manifests are requested."""

    run_id: RunId
    outputs: Annotated[Many[str], Field(max_length=100), MAY_MISS] = ()
    list_others: Annotated[bool, MAY_MISS] = False
    manifests: Annotated[Count, MAY_MISS] = 0


class ListOutboxes(Request[Listings]):
    """List the files of runs that may come home."""

    method = "sync.look"
    answer = Listings
    runs: Annotated[Many[RunToList], Field(max_length=1000)]
    home: OrMissing[AskingHome] = None


class Hashes(Message):
    """The SHA-256 of each requested file, in the order of the request; None for a missing one."""

    sha256: Many[Digest | None]


class HashFiles(Request[Hashes]):
    """Hash files of a run: for each a path, a size and an offset."""

    method = "sync.hash"
    answer = Hashes
    run_id: RunId
    files: Many[Annotated[tuple[Text | int, ...], Field(strict=False, min_length=2, max_length=3)]]


class BlockSize(Message):
    """How many bytes follow the answer's line."""

    size_bytes: Size


class ReadFile(Request[BlockSize]):
    """Read a block of a run's file: exactly `size_bytes` bytes of it follow the answer's line."""

    method = "file.read"
    answer = BlockSize
    run_id: RunId
    path: Text
    offset: Size
    length: Size
