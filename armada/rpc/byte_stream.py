"""Contents of files from a host, over a separate channel: blocks are requested in advance, and their bytes follow each answer.

The peer is the same agent behind the same bootstrap. Only methods whose requests or answers carry raw bytes are called
here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar, cast

from armada.errors import ArmadaError, LinkLost, NotFound
from armada.foundation.sanitize import sanitize_line
from armada.protocol.message import parse
from armada.rpc import agent_archive
from armada.rpc.agent_errors import call_error
from armada.rpc.connection import AgentConnection, Response
from armada.transport.interface import root_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from pydantic import BaseModel

    from armada.config.hosts import Host
    from armada.paths import HomePaths
    from armada.protocol.message import Request
    from armada.transport.interface import Channel

M = TypeVar("M", bound="BaseModel")


@dataclass(frozen=True, slots=True)
class Block:
    """Part of one file of a run; `path` is relative to the run's folder. `index` and `number` are for the caller's own use."""

    run_id: str
    path: str
    offset: int
    length: int
    index: int = 0
    number: int = 0


class Stream:
    """One connection. One thread uses it; only `close` may be called from others.

    Args:
        channel: A bootstrap's input and output.
        host: The host.
        home: Home's folders.
        most_bytes: How many bytes its connection may carry; None if it has a connection of its own.
    """

    def __init__(self, channel: Channel, host: Host, home: HomePaths, *, most_bytes: int | None = None) -> None:
        self.is_direct = most_bytes is not None
        self._left_bytes = most_bytes
        self._host = host.name
        self._asked: dict[int, Block] = {}
        self._connection = AgentConnection(
            channel, host=host.name, root=root_of(host, home), archive=agent_archive.build()
        )

    @property
    def outstanding(self) -> list[Block]:
        """Blocks that were requested but not received completely."""
        return list(self._asked.values())

    @property
    def is_greeted(self) -> bool:
        """Whether the agent has answered."""
        return self._connection.greeting is not None

    @property
    def is_spent(self) -> bool:
        """Whether as many bytes were requested as the connection may carry."""
        return self._left_bytes is not None and self._left_bytes <= 0

    def greet(self) -> None:
        """Wait for the agent's hello. First send the agent's program if the host lacks it.

        Raises:
            HostUnreachable: No connection could be made, or (LinkLost) it was lost.
            ArmadaError: The agent could not start.
        """
        if self._connection.greet() is None:
            raise self._ended()

    def ask(self, block: Block) -> None:
        """Request a block. Answers arrive in any order.

        Raises:
            LinkLost: The connection was lost.
        """
        params: dict[str, object] = {"run_id": block.run_id, "path": block.path}
        params |= {"offset": block.offset, "length": block.length}
        number, line = self._connection.new_request("file.read", params)
        self._asked[number] = block
        if self._left_bytes is not None:
            self._left_bytes -= block.length
        self._connection.write(line)

    def receive(self, sink: Callable[[Block, int, bytes | memoryview], None]) -> tuple[Block, int]:
        """Receive one whole answer.

        Args:
            sink: Gets the bytes as they arrive: the block, the offset in the file, the bytes.

        Returns:
            The block and its size in bytes, which is smaller than requested at the end of the file.

        Raises:
            NotFound: The host has no such file.
            HostUnreachable: The connection was lost.
        """
        self.greet()
        number, size = self._answer()
        block = self._asked[number]
        if not 0 <= size <= block.length:
            raise LinkLost(f"the agent sent {size} of {block.length} requested bytes", host=self._host)
        done = 0
        while done < size:
            part = self._some_bytes(size - done)
            sink(block, block.offset + done, part)
            done += len(part)
        del self._asked[number]
        return block, size

    def pour(self, request: Request[M], fill: Callable[[Callable[[bytes], None]], None]) -> M:
        """Send a request and, after its line, the bytes that `fill` writes. The connection ends with the answer.

        Args:
            request: A request that bytes follow.
            fill: Gets the function that writes bytes.

        Raises:
            ArmadaError: The agent answered with an error, possibly before it received all bytes.
            LinkLost: The connection was lost.
        """
        number = self._send(request)
        try:
            fill(self._connection.write)
        except LinkLost as lost:
            # An agent that cannot continue answers and exits; its message explains more than the closed channel.
            try:
                return self._answer_to(number, request)
            except LinkLost:
                raise lost from None
        return self._answer_to(number, request)

    def exchange(self, request: Request[M], size_of: Callable[[M], int]) -> M:
        """Send a request whose answer's line is followed by bytes, and discard the bytes.

        Args:
            request: The request.
            size_of: Returns how many bytes follow an answer.

        Raises:
            ArmadaError: The agent answered with an error.
            LinkLost: The connection was lost.
        """
        answer = self._answer_to(self._send(request), request)
        left_bytes = size_of(answer)
        while left_bytes > 0:
            left_bytes -= len(self._some_bytes(left_bytes))
        return answer

    def request(self, request: Request[M]) -> M:
        """Send a request whose answer's line is followed by bytes; `read` returns these.

        Raises:
            ArmadaError: The agent answered with an error.
            LinkLost: The connection was lost.
        """
        return self._answer_to(self._send(request), request)

    def read(self, most_bytes: int) -> bytes | memoryview:
        """Return the next bytes after an answer's line: at least one, at most `most_bytes`. The next call may overwrite them.

        Raises:
            LinkLost: The connection was lost.
        """
        return self._some_bytes(most_bytes)

    def close(self) -> None:
        """Close the connection. A thread that is receiving gets LinkLost."""
        self._connection.close()

    def _send(self, request: Request[M]) -> int:
        self.greet()
        number, line = self._connection.new_request(request.method, request.as_params())
        self._connection.write(line)
        return number

    def _answer(self) -> tuple[int, int]:
        """Wait for the answer to any block. Return its number and how many bytes follow."""
        while (response := self._response()).number not in self._asked:
            pass
        if response.error is not None:
            error = call_error(response.error, "file.read", host=self._host)
            kind = NotFound if isinstance(error, NotFound) else ArmadaError
            raise kind(f"{self._asked[response.number].path}: {sanitize_line(error.message)}", host=self._host)
        size = response.result.get("size_bytes") if isinstance(response.result, dict) else None
        if not isinstance(size, int):
            raise LinkLost("the agent's answer has no size", host=self._host)
        return response.number, size

    def _answer_to(self, number: int, request: Request[M]) -> M:
        while (response := self._response()).number != number:
            pass
        if response.error is not None:
            raise call_error(response.error, request.method, host=self._host)
        return parse(cast("type[M]", request.answer), response.result, host=self._host, method=request.method)

    def _response(self) -> Response:
        while message := self._connection.receive():
            if isinstance(message, Response):
                return message
        raise self._ended()

    def _some_bytes(self, most_bytes: int) -> bytes | memoryview:
        data = self._connection.some_bytes(most_bytes)
        if not data:
            raise self._ended()
        return data

    def _ended(self) -> LinkLost:
        return LinkLost(f"the agent ended: {self._connection.diagnosis()}", hint="run it again", host=self._host)
