"""`content.*`: code, data and models, named by the hash of their content."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from armada.protocol.message import MAY_MISS, Count, Digest, Many, Message, RelativePath, Request, Size, Text

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
    """Whether a content is on the host, its folder, and the folder for its upload."""

    present: bool
    path: Text
    staging: Text


class CheckContent(Request[ContentPlace]):
    """Check whether a content is on the host. Unless `only_look` is true, prepare a missing one's folder for the upload."""

    method = "content.check"
    answer = ContentPlace
    kind: Kind
    sha: Digest
    only_look: Annotated[bool, MAY_MISS] = False


class PublishedContent(Message):
    """The folder of a content."""

    path: Text


class PublishContent(Request[PublishedContent]):
    """Verify an uploaded content and move it to its final name."""

    method = "content.publish"
    answer = PublishedContent
    kind: Kind
    sha: Digest
    manifest: ContentManifest


class StagedFiles(Message):
    """The files that an earlier transfer left: path and size in bytes of each, at most 50,000 files."""

    files: Many[Annotated[tuple[Text, Size], Field(strict=False)]]


class ListStaged(Request[StagedFiles]):
    """List the files that an earlier transfer of a content left."""

    method = "content.staged"
    answer = StagedFiles
    kind: Kind
    sha: Digest


class Received(Message):
    """How many files arrived. After this answer the connection closes."""

    files: Count


class ReceiveContent(Request[Received]):
    """Receive files: a tar stream of regular files follows the request's line.

    A member with the pax header ARMADA.offset is appended to the staged file at that offset.
    """

    method = "content.receive"
    answer = Received
    kind: Kind
    sha: Digest
