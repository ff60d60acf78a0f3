"""`container.*`: the container tool of a host, and its images."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from armada.protocol.message import MAY_MISS, Line, Many, Message, Request, Seconds, Text, any_word, word

Tool = Annotated[str, any_word("podman", "docker")]


class ExaminedContainer(Message):
    """The tool that would run an image, and the image's id and its name in a registry; both are null if it is not there."""

    tool: Tool
    version: Line
    id: Text | None
    digest: Text | None


class ExamineContainer(Request[ExaminedContainer]):
    """Find the container tool of a host, and an image among those it has. `gpus`: whether the job needs GPUs."""

    method = "container.examine"
    answer = ExaminedContainer
    image: str
    gpus: bool


class EnsuredContainer(ExaminedContainer):
    """An image that the host has.

    `python`: the version of its Python, if packages were asked for. `versions`: of the packages in `asked`; null where
    one is missing.
    """

    outcome: Annotated[str, word("ready", "pulled")]
    seconds: Seconds
    python: Line | None
    versions: Annotated[dict[str, Line | None], MAY_MISS] = Field(default_factory=dict)


class EnsureContainer(Request[EnsuredContainer]):
    """Pull an image if it is missing.

    `packages`: Python packages that it must contain. `asked`: Python packages whose versions are to be told.
    """

    method = "container.ensure"
    answer = EnsuredContainer
    image: str
    gpus: bool
    packages: Annotated[Many[str], MAY_MISS] = ()
    asked: Annotated[Many[str], MAY_MISS] = ()
