"""The lines before and around requests: those of the bootstrap, the agent's greeting, and those of JSON-RPC."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from armada.protocol.message import MAY_MISS, Digest, Integer, Line, Many, Message, Positive, Text, Unsaid, any_word
from armada.protocol.records import Identity

ErrorKind = Annotated[
    str,
    any_word(
        "not_found",
        "conflict",
        "bad_request",
        "environment",
        "disk_full",
        "io",
        "internal",
        "unsupported",
        "scheduler",
        "outcome_unknown",
    ),
]


class Head(Message):
    """The first line from home.

    `setup`: shell lines that set up the host. `looks`: create nothing on a host that has neither an agent nor a run.
    """

    root: str
    sha256: Digest
    nonce: str
    protocol: Positive
    setup: Annotated[Many[str], MAY_MISS] = ()
    looks: Annotated[Literal[True], MAY_MISS] = True


class AgentUpload(Message):
    """The agent's program in base64."""

    agent: str
    packed: Annotated[Literal[True], MAY_MISS] = True


class Need(Message):
    """The bootstrap requests the agent's program."""

    nonce: Text
    need: Literal["agent"]
    packed: bool = False


class Greeting(Message):
    """The agent's description of itself. It understands the protocols from `oldest_protocol` to `protocol`."""

    protocol: Positive
    oldest_protocol: Positive
    version: Annotated[Text, Field(description="armada's")]
    python: Text
    root: Text
    identity: Identity


class Hello(Message):
    """The agent's first line."""

    nonce: Text
    hello: Greeting


class StartFailure(Message):
    """Why no agent could start. `root`, only with `not_found`: the text of root.json, empty if the file is missing."""

    kind: ErrorKind
    message: Line
    hint: Annotated[Unsaid[Line], MAY_MISS] = None
    root: Annotated[Unsaid[Text], MAY_MISS] = None


class Failure(Message):
    """The bootstrap's last line if no agent could start."""

    nonce: Text
    error: StartFailure


class RequestLine(Message):
    """A JSON-RPC request."""

    jsonrpc: Literal["2.0"]
    id: Integer
    method: str
    params: dict[str, object]


class AnswerLine(Message):
    """A JSON-RPC answer."""

    jsonrpc: Literal["2.0"]
    id: Integer
    result: dict[str, object]


class RefusalData(Message):
    """The kind of armada's error, and what the user can do about it."""

    kind: ErrorKind
    hint: Line | None = None


class Refusal(Message):
    """A JSON-RPC error."""

    code: Integer
    message: Line
    data: Annotated[Unsaid[RefusalData], MAY_MISS] = None


class RefusalLine(Message):
    """An answer that is an error."""

    jsonrpc: Literal["2.0"]
    id: Integer | None
    error: Refusal


class Progress(Message):
    """The progress of a call."""

    id: Integer
    message: Line
    fraction: Annotated[float, Field(ge=0, le=1)] | None


class ProgressLine(Message):
    """A JSON-RPC notification."""

    jsonrpc: Literal["2.0"]
    method: Literal["progress"]
    params: Progress
