"""`environment.pack` and what follows: a finished environment is sent from one host to another."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from armada.protocol.content import Mode, Received
from armada.protocol.environment import BuiltEnvironment
from armada.protocol.message import (
    Count,
    Digest,
    EnvironmentKey,
    Line,
    Many,
    Message,
    RelativePath,
    Request,
    Size,
    Text,
)
from armada.protocol.sync import BlockSize


class PackedPython(Message):
    """The Python of an environment. `abi`: what its compiled packages need. `standalone`: its folder's name, if it is sent too."""

    version: Annotated[str, Field(pattern=r"^\d{1,3}\.\d{1,3}\.\d{1,3}$")]
    implementation: Line
    abi: Line
    prefix: Text
    standalone: Line | None


class PackingList(Message):
    """All of an environment: its files, with paths below `env/` and `python/`, its links, and what it needs of a host.

    `folders`: the paths that its files may name. `glibc`: the oldest that its packages run with. `modules`: those that
    could be imported.
    """

    format: Literal[1]
    key: EnvironmentKey
    hostname: Line
    folders: Many[Text]
    python: PackedPython
    machine: Line
    libc: Line
    glibc: Annotated[str, Field(pattern=r"^\d{1,3}\.\d{1,3}$")] | None
    modules: Many[Text]
    freeze: Text | None
    notes: Many[Line]
    files: Many[Annotated[tuple[RelativePath, Size, Digest, Mode], Field(strict=False)]]
    links: Many[Annotated[tuple[RelativePath, Text], Field(strict=False)]]


class PackedEnvironment(Message):
    """A list of an environment, which `environment.read` sends as `packed.json`. `failed`: imports that fail there."""

    digest: Digest
    list_bytes: Size
    size_bytes: Size
    failed: dict[str, Text]


class PackEnvironment(Request[PackedEnvironment]):
    """List a finished environment, with the hash of every file."""

    method = "environment.pack"
    answer = PackedEnvironment
    key: EnvironmentKey


class ReadEnvironment(Request[BlockSize]):
    """Read parts of an environment's files: for each a path, an offset and a length. The bytes follow the answer's line."""

    method = "environment.read"
    answer = BlockSize
    key: EnvironmentKey
    digest: Digest
    files: Many[Annotated[tuple[RelativePath, Size, Size], Field(strict=False)]]


class MissingFiles(Message):
    """What has not arrived. `listed`: the list has. `missing`: first and end of a range of files, and an offset in the first.

    `python`: whether the host has one for the environment, or one comes with it.
    """

    ready: bool
    listed: bool
    python: bool
    missing: Many[Annotated[tuple[Count, Count, Size], Field(strict=False)]]
    missing_bytes: Size


class PlaceEnvironment(Request[MissingFiles]):
    """Ask a host what it lacks of an environment that is sent to it."""

    method = "environment.place"
    answer = MissingFiles
    key: EnvironmentKey
    digest: Digest


class ReceiveEnvironment(Request[Received]):
    """Receive files of an environment: a tar stream follows, as after `content.receive`."""

    method = "environment.receive"
    answer = Received
    key: EnvironmentKey


class UnpackEnvironment(Request[BuiltEnvironment]):
    """Verify what arrived, and make it an environment of this host."""

    method = "environment.unpack"
    answer = BuiltEnvironment
    key: EnvironmentKey
    digest: Digest
