"""`files.*`: what an experiment's `files:` name elsewhere: on the host, on the web, at the hub."""

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
    """A file or folder that the host has."""

    kind: Literal["host"]
    path: Text


class WebSource(Message):
    """A file on the web; `name` is what it is called in its content."""

    kind: Literal["web"]
    url: Text
    name: Text
    sha256: Annotated[Digest | None, MAY_MISS] = None


class HubSource(Message):
    """A repository of the Hugging Face hub, or with `path` a file or folder in it."""

    kind: Literal["hub"]
    collection: Literal["models", "datasets"]
    repo: Text
    revision: Text
    path: str


Source = HostSource | WebSource | HubSource


class FoundSource(Message):
    """What a source is now.

    Attributes:
        identity: Another one as soon as its files may be others; None where its server does not tell.
        present: The host has it, at `path`.
        size_bytes: None where its server does not tell.
        problem: Why it cannot be had; `refused` where its server, or the host, says so.
    """

    identity: Digest | None
    present: bool
    path: Text | None
    size_bytes: Size | None
    files: Count
    problem: Line | None
    refused: bool


class FoundSources(Message):
    """One answer for each source, in their order."""

    found: Many[FoundSource]


class LookUpSources(Request[FoundSources]):
    """Look up sources; nothing is downloaded."""

    method = "files.look_up"
    answer = FoundSources
    sources: Many[Source]
    variables: OrMissing[Variables] = None
    token: Annotated[str | None, MAY_MISS] = None


class FetchedSource(Message):
    """Where a source's files are on the host."""

    outcome: Annotated[str, word("ready", "fetched")]
    path: Text
    size_bytes: Size


class FetchSource(Request[FetchedSource]):
    """Let the host download a source that is still what it was when it was looked up."""

    method = "files.fetch"
    answer = FetchedSource
    source: Source
    identity: Digest | None
    variables: OrMissing[Variables] = None
    token: Annotated[str | None, MAY_MISS] = None
