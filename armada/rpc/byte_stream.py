"""Contents of files from a host, over a channel of their own: blocks are asked for ahead, their bytes follow each answer.

The far end is the same agent behind the same bootstrap; only `file.read` is asked, because its answers carry raw bytes.
"""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from armada.errors import ArmadaError, LinkLost, NotFound
from armada.foundation.sanitize import sanitize_line
from armada.rpc import agent_archive
from armada.rpc.agent_errors import call_error
from armada.transport.bootstrap import MARK, opening, upload
from armada.transport.interface import root_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from armada.config.hosts import Host
    from armada.paths import HomePaths
    from armada.transport.interface import Channel

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
        self._nonce = secrets.token_hex(16)
        self._archive, sha256 = agent_archive.build()
        self._rest = b""
        self._asked: dict[int, Block] = {}
        self._count = 0
        self._greeted = False
        self._channel.write(opening(root=root_of(host, home), sha256=sha256, nonce=self._nonce))

    @property
    def outstanding(self) -> list[Block]:
        """Blocks asked for and not received whole."""
        return list(self._asked.values())

    @property
    def is_greeted(self) -> bool:
        """The agent at the far end has answered."""
        return self._greeted

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
        while not self._greeted:
            line = self._line()
            if not line.startswith(MARK):
                continue  # what the login prints
            message = _object(line[len(MARK) :])
            if message.get("nonce") != self._nonce:
                continue
            if message.get("need") == "agent":
                self._channel.write(upload(self._archive, packed=message.get("packed") is True))
            elif "hello" in message:
                self._greeted = True
            else:
                said = sanitize_line(_mapping(message.get("error")).get("message", "the bootstrap failed"))
                raise ArmadaError(f"the agent could not start: {said}", host=self._host)

    def ask(self, block: Block) -> None:
        """Ask for a block; answers come in any order.

        Raises:
            LinkLost: The channel is gone.
        """
        self._count += 1
        self._asked[self._count] = block
        if self._left_bytes is not None:
            self._left_bytes -= block.length
        params = {"run_id": block.run_id, "path": block.path, "offset": block.offset, "length": block.length}
        request = {"jsonrpc": "2.0", "id": self._count, "method": "file.read", "params": params}
        self._channel.write(json.dumps(request, ensure_ascii=True).encode("ascii") + b"\n")

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

    def pour(
        self, method: str, params: dict[str, Any], fill: Callable[[Callable[[bytes], None]], None]
    ) -> dict[str, Any]:
        """Send a request and, after its line, whatever `fill` writes; the answer ends the conversation.

        Args:
            method: As in protocol.json, one that bytes follow.
            params: Its parameters.
            fill: Is given what writes.

        Raises:
            ArmadaError: The agent said no, in the middle too.
            LinkLost: The channel went away.
        """
        self.greet()
        self._count += 1
        request = {"jsonrpc": "2.0", "id": self._count, "method": method, "params": params}
        self._channel.write(json.dumps(request, ensure_ascii=True).encode("ascii") + b"\n")
        try:
            fill(self._channel.write)
        except LinkLost as lost:
            # An agent that cannot go on answers and leaves; its words say more than the closed channel.
            try:
                return self._final_answer(method)
            except LinkLost:
                raise lost from None
        return self._final_answer(method)

    def exchange(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Ask a method whose answer's line is followed by `size_bytes` bytes, and let those pass.

        Raises:
            ArmadaError: The agent said no.
            LinkLost: The channel went away.
        """
        self.greet()
        self._count += 1
        request = {"jsonrpc": "2.0", "id": self._count, "method": method, "params": params}
        self._channel.write(json.dumps(request, ensure_ascii=True).encode("ascii") + b"\n")
        answer = self._final_answer(method)
        left = int(answer.get("size_bytes", 0))
        while left > 0:
            data = self._rest or self._more()
            self._rest = data[left:]
            left -= len(data)
        return answer

    def close(self) -> None:
        """Hang up; whoever is receiving gets LinkLost."""
        self._channel.close()

    def _answer(self) -> tuple[int, int]:
        while True:
            message = _object(self._line())
            number = message.get("id")
            if not isinstance(number, int) or number not in self._asked:
                continue
            if "error" in message:
                block = self._asked[number]
                refusal = _mapping(message["error"])
                said, kind = sanitize_line(refusal.get("message", "refused")), _mapping(refusal.get("data")).get("kind")
                raise (NotFound if kind == "not_found" else ArmadaError)(f"{block.path}: {said}", host=self._host)
            size = _mapping(message.get("result")).get("size_bytes")
            if not isinstance(size, int):
                raise LinkLost("the agent's answer has no size", host=self._host)
            return number, size

    def _final_answer(self, method: str) -> dict[str, Any]:
        while True:
            message = _object(self._line())
            if message.get("id") != self._count:
                continue
            if "error" in message:
                raise call_error(message["error"], method, host=self._host)
            return _mapping(message.get("result"))

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


def _mapping(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _object(line: bytes) -> dict[str, Any]:
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return _mapping(message)
