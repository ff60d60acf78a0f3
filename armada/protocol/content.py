"""`content.*`: code, data and models that are named by what they hold."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from armada.protocol.message import Count, Digest, Many, Message, RelativePath, Request, Size, Text

Kind = Literal["code", "data", "models"]
Mode = Literal[493, 420]
ContentFile = Annotated[tuple[RelativePath, Size, Digest, Mode], Field(strict=False)]
ContentManifest = Annotated[
    Many[ContentFile],
    Field(
        description="sorted by path; the content's name is the SHA-256 of its JSON without spaces, ASCII only",
    ),
]


class ContentPlace(Message):
    """Whether a content is there, where, and where an upload goes."""

    present: bool
    path: Text
    staging: Text


class CheckContent(Request[ContentPlace]):
    """Look whether a content is there."""

    method = "content.check"
    answer = ContentPlace
    kind: Kind
    sha: Digest


class PublishedContent(Message):
    """Where a content is."""

    path: Text


class PublishContent(Request[PublishedContent]):
    """Verify an uploaded content and give it its name."""

    method = "content.publish"
    answer = PublishedContent
    kind: Kind
    sha: Digest
    manifest: ContentManifest


class StagedFiles(Message):
    """What an earlier transfer left: path and size of each file, 50,000 at most."""

    files: Many[Annotated[tuple[Text, Size], Field(strict=False)]]


class ListStaged(Request[StagedFiles]):
    """List what an earlier transfer left of a content."""

    method = "content.staged"
    answer = StagedFiles
    kind: Kind
    sha: Digest


class Received(Message):
    """How many files arrived; this answer ends the conversation."""

    files: Count


class ReceiveContent(Request[Received]):
    """Take files: a tar stream of regular files follows the line of the request.

    A member with the pax header ARMADA.offset goes on where the staged file ends.
    """

    method = "content.receive"
    answer = Received
    kind: Kind
    sha: Digest
