"""`files.*`: the sources of an experiment's `files:` outside home: on the host, on the web, at the hub."""

from __future__ import annotations

from typing import Annotated, Literal

from armada.protocol.environment import Variables
from armada.protocol.message import (
    MAY_MISS,
    Count,
    Digest,
    Line,
    Many,
    Message,
    OrMissing,
    Request,
    Size,
    Text,
    word,
)


class HostSource(Message):
    """A file or folder on the host."""

    kind: Literal["host"]
    path: Text


class WebSource(Message):
    """A file on the web; `name` is its name in its content."""

    kind: Literal["web"]
    url: Text
    name: Text
    sha256: Annotated[Digest | None, MAY_MISS] = None


class HubSource(Message):
    """A repository of the Hugging Face hub, or with `path`, a file or folder in it."""

    kind: Literal["hub"]
    collection: Literal["models", "datasets"]
    repo: Text
    revision: Text
    path: str


Source = HostSource | WebSource | HubSource


class FoundSource(Message):
    """The present state of a source.

    Attributes:
        identity: Changes whenever the source's files may have changed; None if its server does not show that.
        present: The host has it, at `path`.
        size_bytes: None if its server does not report it.
        problem: Why it is not available; `refused` if its server or the host answered with an error.
    """

    identity: Digest | None
    present: bool
    path: Text | None
    size_bytes: Size | None
    files: Count
    problem: Line | None
    refused: bool


class FoundSources(Message):
    """One answer per source, in the order of the sources."""

    found: Many[FoundSource]


class LookUpSources(Request[FoundSources]):
    """Look up sources without downloading them."""

    method = "files.look_up"
    answer = FoundSources
    sources: Many[Source]
    variables: OrMissing[Variables] = None
    token: Annotated[str | None, MAY_MISS] = None


class FetchedSource(Message):
    """The path of a source's files on the host."""

    outcome: Annotated[str, word("ready", "fetched")]
    path: Text
    size_bytes: Size


class FetchSource(Request[FetchedSource]):
    """Download a source to the host, if it has not changed since it was looked up."""

    method = "files.fetch"
    answer = FetchedSource
    source: Source
    identity: Digest | None
    variables: OrMissing[Variables] = None
    token: Annotated[str | None, MAY_MISS] = None
