"""JSON-RPC 2.0 with an agent over one channel: requests and answers are lines, and bytes follow some of them.

`armada.rpc.client` calls methods over it from many threads; `armada.rpc.byte_stream` reads files over it.
"""

from __future__ import annotations

import itertools
import secrets
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from armada.errors import ArmadaError, LinkLost
from armada.foundation.sanitize import sanitize_line, sanitize_text
from armada.rpc.agent_errors import call_error
from armada.rpc.greeting import Greeter, read_object, request_line
from armada.rpc.lines import LineReader, LineTooLong
from armada.transport.bootstrap import opening

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from armada.rpc.greeting import Greeting
    from armada.transport.interface import Channel

LINE_LIMIT_BYTES = 8 << 20
NOISE_LIMIT_BYTES = 64 << 10
_NOISE_LINE_BYTES = 4 << 10


@dataclass(frozen=True, slots=True)
class Response:
    """The answer to one request: either `result` or `error`."""

    number: int
    result: object
    error: object

    def outcome(self, method: str, *, host: str) -> dict[str, object]:
        """Return the result.

        Raises:
            ArmadaError: The agent answered with an error, or the result is not an object.
        """
        if self.error is not None:
            raise call_error(self.error, method, host=host)
        if not isinstance(self.result, dict):
            raise ArmadaError(f"the answer to {method} is not an object", host=host)
        return self.result


@dataclass(frozen=True, slots=True)
class ProgressNote:
    """The agent's progress message about a pending request, sanitized."""

    number: int
    message: str
    fraction: float | None


class AgentConnection:
    """One connection with an agent. One thread reads; `close` and `noise` may be used from any thread.

    Args:
        channel: A bootstrap's input and output.
        host: The host's name.
        root: armada's folder there.
        archive: The agent's zipapp and its SHA-256.
        setup: Shell lines that set up the host.
        looks: Create nothing on a host without armada's files.
        write: Sends bytes to the agent; the channel's own `write` by default.
    """

    def __init__(
        self,
        channel: Channel,
        *,
        host: str,
        root: str,
        archive: tuple[bytes, str],
        setup: Sequence[str] = (),
        looks: bool = False,
        write: Callable[[bytes], None] | None = None,
    ) -> None:
        self.host = host
        self.write = write or channel.write
        self._channel = channel
        self._lines = LineReader(channel.read, LINE_LIMIT_BYTES)
        self._numbers = itertools.count(1)
        self._noise = bytearray()
        self._noise_lock = threading.Lock()
        program, sha256 = archive
        nonce = secrets.token_hex(16)
        self._greeter = Greeter(program, nonce, self.write, host=host)
        self.write(opening(root=root, sha256=sha256, nonce=nonce, setup=setup, looks=looks))

    @property
    def greeting(self) -> Greeting | None:
        """The agent's hello; None until `greet` has read it."""
        return self._greeter.greeting

    @property
    def received_bytes(self) -> int:
        """Bytes that the channel has delivered."""
        return self._lines.received_bytes

    @property
    def noise(self) -> str:
        """The end of the host's other output (start-up files, banners), sanitized."""
        with self._noise_lock:
            return sanitize_text(self._noise.decode("utf-8", "replace")).strip()

    def diagnosis(self) -> str:
        """Return how the program on the host ended, sanitized."""
        return self._channel.diagnosis()

    def new_request(self, method: str, params: dict[str, object]) -> tuple[int, bytes]:
        """Return a new request's number and its line, for `write`.

        Raises:
            ArmadaError: The line exceeds the agent's limit.
        """
        number = next(self._numbers)
        line = request_line(number, method, params)
        if len(line) > LINE_LIMIT_BYTES:
            raise ArmadaError(f"the request {method} is {len(line)} bytes; the limit is 8 MiB", host=self.host)
        return number, line

    def greet(self) -> Greeting | None:
        """Wait for the agent's hello. First send the agent's program if the host lacks it. Return None at the channel's end.

        Raises:
            ProvisionFailed: The agent could not start, or speaks another protocol.
            NothingThere: The host has none of armada's files, and none were to be created.
            HostUnreachable: The connection was lost.
        """
        while self._greeter.greeting is None:
            line = self._lines.line(drop_long=True)
            if line is None:
                return None
            if not self._greeter.take(line):
                self._keep_noise(line)
        return self._greeter.greeting

    def receive(self) -> Response | ProgressNote | None:
        """Wait for the agent's next message, after `greet`. Return None at the channel's end.

        Raises:
            LinkLost: A line is too long, or the connection was lost.
        """
        while True:
            try:
                line = self._lines.line()
            except LineTooLong:
                raise LinkLost("the agent sent a line of more than 8 MiB", host=self.host) from None
            if line is None:
                return None
            fields = read_object(line)
            message = _message(fields) if fields is not None else None
            if message is not None:
                return message
            if fields is None:
                self._keep_noise(line)

    def some_bytes(self, most_bytes: int) -> bytes | memoryview:
        """Return the next bytes after an answer's line, at most `most_bytes`; empty at the channel's end."""
        return self._lines.some(most_bytes)

    def close(self) -> None:
        """Close the connection."""
        self._channel.close()

    def _keep_noise(self, line: bytes) -> None:
        with self._noise_lock:
            self._noise += line[:_NOISE_LINE_BYTES] + b"\n"
            del self._noise[:-NOISE_LIMIT_BYTES]


def _message(fields: dict[str, object]) -> Response | ProgressNote | None:
    """Parse a message; return None if it names no request."""
    if "method" not in fields:
        number = fields.get("id")
        refusal = (fields["error"] or {}) if "error" in fields else None
        return Response(number, fields.get("result"), refusal) if isinstance(number, int) else None
    params = fields.get("params")
    if not isinstance(params, dict) or not isinstance(number := params.get("id"), int):
        return None
    fraction = params.get("fraction")
    known = float(fraction) if isinstance(fraction, int | float) and 0 <= fraction <= 1 else None
    return ProgressNote(number, sanitize_line(params.get("message", "")), known)
