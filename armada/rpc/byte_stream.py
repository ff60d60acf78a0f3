"""Contents of files from a host, over a channel of their own: blocks are asked for ahead, their bytes follow each answer.

The far end is the same agent behind the same bootstrap; only `file.read` is asked, because its answers carry raw bytes.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar, cast

from armada.errors import ArmadaError, LinkLost, NotFound
from armada.foundation.sanitize import sanitize_line
from armada.protocol.message import parse
from armada.rpc import agent_archive
from armada.rpc.agent_errors import call_error
from armada.rpc.greeting import Greeter, read_object, request_line
from armada.transport.bootstrap import opening
from armada.transport.interface import root_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from pydantic import BaseModel

    from armada.config.hosts import Host
    from armada.paths import HomePaths
    from armada.protocol.message import Request
    from armada.transport.interface import Channel

M = TypeVar("M", bound="BaseModel")

_LONGEST_LINE = 1 << 20


@dataclass(frozen=True, slots=True)
class Block:
    """A part of one file of a run; `path` is below the run's folder. `index` and `number` are its asker's own marks."""

    run_id: str
    path: str
    offset: int
    length: int
    index: int = 0
    number: int = 0


class Stream:
    """One conversation; used by one thread, except for `close`.

    Args:
        channel: A bootstrap's input and output.
        host: Whose.
        home: Home's folders.
        most_bytes: How much its connection may carry; None where it is one of its own.
    """

    def __init__(self, channel: Channel, host: Host, home: HomePaths, *, most_bytes: int | None = None) -> None:
        self.is_direct = most_bytes is not None
        self._left_bytes = most_bytes
        self._channel = channel
        self._host = host.name
        nonce = secrets.token_hex(16)
        program, sha256 = agent_archive.build()
        self._greeter = Greeter(program, nonce, channel.write, host=host.name)
        self._rest = b""
        self._asked: dict[int, Block] = {}
        self._count = 0
        self._channel.write(opening(root=root_of(host, home), sha256=sha256, nonce=nonce))

    @property
    def outstanding(self) -> list[Block]:
        """Blocks asked for and not received whole."""
        return list(self._asked.values())

    @property
    def is_greeted(self) -> bool:
        """The agent at the far end has answered."""
        return self._greeter.greeting is not None

    @property
    def is_spent(self) -> bool:
        """All has been asked for that its connection may carry."""
        return self._left_bytes is not None and self._left_bytes <= 0

    def greet(self) -> None:
        """Wait for the agent; it gets its program first where the host lacks it.

        Raises:
            HostUnreachable: No connection could be made, or (LinkLost) it went away.
            ArmadaError: The agent could not start.
        """
        while self._greeter.greeting is None:
            self._greeter.take(self._line())  # what the login prints is passed over

    def ask(self, block: Block) -> None:
        """Ask for a block; answers come in any order.

        Raises:
            LinkLost: The channel is gone.
        """
        self._count += 1
        self._asked[self._count] = block
        if self._left_bytes is not None:
            self._left_bytes -= block.length
        params: dict[str, object] = {"run_id": block.run_id, "path": block.path}
        params |= {"offset": block.offset, "length": block.length}
        self._channel.write(request_line(self._count, "file.read", params))

    def receive(self, sink: Callable[[Block, int, bytes | memoryview], None]) -> tuple[Block, int]:
        """Take the next answer whole.

        Args:
            sink: Takes its bytes as they arrive: the block, where in the file they belong, the bytes.

        Returns:
            The block, and how many bytes of it there are: fewer than asked for where the file is shorter.

        Raises:
            NotFound: The host has no such file.
            HostUnreachable: The channel is gone.
        """
        self.greet()
        number, size = self._answer()
        block = self._asked[number]
        if not 0 <= size <= block.length:
            raise LinkLost(f"the agent sent {size} of {block.length} requested bytes", host=self._host)
        done = 0
        while done < size:
            data = self._rest or self._more()
            part = data if len(data) <= size - done else memoryview(data)[: size - done]
            self._rest = data[len(part) :] if len(part) < len(data) else b""
            sink(block, block.offset + done, part)
            done += len(part)
        del self._asked[number]
        return block, size

    def pour(self, request: Request[M], fill: Callable[[Callable[[bytes], None]], None]) -> M:
        """Send a request and, after its line, whatever `fill` writes; the answer ends the conversation.

        Args:
            request: One that bytes follow.
            fill: Is given what writes.

        Raises:
            ArmadaError: The agent said no, in the middle too.
            LinkLost: The channel went away.
        """
        self._send(request)
        try:
            fill(self._channel.write)
        except LinkLost as lost:
            # An agent that cannot go on answers and leaves; its words say more than the closed channel.
            try:
                return self._final_answer(request)
            except LinkLost:
                raise lost from None
        return self._final_answer(request)

    def exchange(self, request: Request[M], size_of: Callable[[M], int]) -> M:
        """Ask a method whose answer's line is followed by bytes, and let those pass.

        Args:
            request: The question.
            size_of: How many bytes follow, by the answer.

        Raises:
            ArmadaError: The agent said no.
            LinkLost: The channel went away.
        """
        self._send(request)
        answer = self._final_answer(request)
        left = size_of(answer)
        while left > 0:
            data = self._rest or self._more()
            self._rest = data[left:]
            left -= len(data)
        return answer

    def close(self) -> None:
        """Hang up; whoever is receiving gets LinkLost."""
        self._channel.close()

    def _send(self, request: Request[M]) -> None:
        self.greet()
        self._count += 1
        self._channel.write(request_line(self._count, request.method, request.as_params()))

    def _answer(self) -> tuple[int, int]:
        while True:
            message = read_object(self._line()) or {}
            number = message.get("id")
            if not isinstance(number, int) or number not in self._asked:
                continue
            if "error" in message:
                error = call_error(message["error"], "file.read", host=self._host)
                kind = NotFound if isinstance(error, NotFound) else ArmadaError
                raise kind(f"{self._asked[number].path}: {sanitize_line(error.message)}", host=self._host)
            result = message.get("result")
            size = result.get("size_bytes") if isinstance(result, dict) else None
            if not isinstance(size, int):
                raise LinkLost("the agent's answer has no size", host=self._host)
            return number, size

    def _final_answer(self, request: Request[M]) -> M:
        while True:
            message = read_object(self._line()) or {}
            if message.get("id") != self._count:
                continue
            if "error" in message:
                raise call_error(message["error"], request.method, host=self._host)
            model = cast("type[M]", request.answer)
            return parse(model, message.get("result"), host=self._host, method=request.method)

    def _line(self) -> bytes:
        parts: list[bytes] = []
        held = 0
        while True:
            data = self._rest or self._more()
            line, end, self._rest = data.partition(b"\n")
            parts.append(line)
            held += len(line)
            if held > _LONGEST_LINE:
                raise LinkLost("the agent sent a line of more than 1 MiB", host=self._host)
            if end:
                return b"".join(parts)

    def _more(self) -> bytes:
        data = self._channel.read()
        if not data:
            raise LinkLost(f"the agent ended: {self._channel.diagnosis()}", hint="run it again", host=self._host)
        return data
