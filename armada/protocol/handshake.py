"""The lines around requests: the bootstrap's, the agent's greeting, and JSON-RPC's own."""

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
    """What home says first.

    `setup` are lines of shell the host needs before anything. `looks`: make nothing where there is neither an agent nor a run.
    """

    root: str
    sha256: Digest
    nonce: str
    protocol: Positive
    setup: Annotated[Many[str], MAY_MISS] = ()
    looks: Annotated[Literal[True], MAY_MISS] = True


class AgentUpload(Message):
    """The agent's program, in base64."""

    agent: str
    packed: Annotated[Literal[True], MAY_MISS] = True


class Need(Message):
    """The bootstrap asks for the agent's program."""

    nonce: Text
    need: Literal["agent"]
    packed: bool = False


class Greeting(Message):
    """What an agent says about itself; the protocols it understands are `oldest_protocol` to `protocol`."""

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
    """Why no agent could be started; `root`, with `not_found`: the text of root.json, empty where there is none."""

    kind: ErrorKind
    message: Line
    hint: Annotated[Unsaid[Line], MAY_MISS] = None
    root: Annotated[Unsaid[Text], MAY_MISS] = None


class Failure(Message):
    """The bootstrap's last line where no agent could be started."""

    nonce: Text
    error: StartFailure


class RequestLine(Message):
    """A request of JSON-RPC's."""

    jsonrpc: Literal["2.0"]
    id: Integer
    method: str
    params: dict[str, object]


class AnswerLine(Message):
    """An answer of JSON-RPC's."""

    jsonrpc: Literal["2.0"]
    id: Integer
    result: dict[str, object]


class RefusalData(Message):
    """Which of armada's errors it is, and what to do now."""

    kind: ErrorKind
    hint: Line | None = None


class Refusal(Message):
    """An error of JSON-RPC's."""

    code: Integer
    message: Line
    data: Annotated[Unsaid[RefusalData], MAY_MISS] = None


class RefusalLine(Message):
    """An answer that is an error."""

    jsonrpc: Literal["2.0"]
    id: Integer | None
    error: Refusal


class Progress(Message):
    """How far a call is."""

    id: Integer
    message: Line
    fraction: Annotated[float, Field(ge=0, le=1)] | None


class ProgressLine(Message):
    """A notification of JSON-RPC's."""

    jsonrpc: Literal["2.0"]
    method: Literal["progress"]
    params: Progress
