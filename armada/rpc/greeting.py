"""Parse the first lines from a host, for all clients: its bootstrap may request the agent's program, then the agent says hello."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeGuard

from armada import __version__
from armada.errors import NothingThere, ProvisionFailed
from armada.foundation.sanitize import sanitize_line
from armada.protocol.version import OLDEST_PROTOCOL, PROTOCOL
from armada.transport.bootstrap import MARK, upload
from armada.transport.ssh.names import has_control_characters

if TYPE_CHECKING:
    from collections.abc import Callable

    from armada.errors import ArmadaError

_HINTS = {
    "disk_full": "make room there, or choose another `root` for this host",
    "io": "choose another `root` for this host: a folder in which you can create files",
}


@dataclass(frozen=True, slots=True)
class Greeting:
    """The agent's description of itself: the newest protocol that it understands, and its root folder, checked."""

    protocol: int
    root: str


class Greeter:
    """Reads lines until the agent's hello.

    Args:
        archive: The agent's program.
        nonce: Distinguishes our lines from the output of start-up files.
        write: Sends bytes to the host.
        host: The host's name.
    """

    def __init__(self, archive: bytes, nonce: str, write: Callable[[bytes], None], *, host: str) -> None:
        self._archive = archive
        self._nonce = nonce
        self._write = write
        self._host = host
        self.greeting: Greeting | None = None

    def take(self, line: bytes) -> bool:
        """Process a line; return whether it was meant for armada. Send the agent's program if the host lacks it.

        Raises:
            ProvisionFailed: The agent could not start, or speaks another protocol.
            NothingThere: The host has none of armada's files, and none were to be created.
        """
        message = read_object(line[len(MARK) :]) if line.startswith(MARK) else None
        if message is None or message.get("nonce") != self._nonce:
            return False
        if message.get("need") == "agent":
            self._write(upload(self._archive, packed=message.get("packed") is True))
        elif "hello" in message:
            self.greeting = _greeting(message["hello"], host=self._host)
        else:
            raise _start_failure(message.get("error"), host=self._host)
        return True


def read_object(line: bytes) -> dict[str, object] | None:
    """Parse a line as a JSON object; return None for anything else."""
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return message if isinstance(message, dict) else None


def request_line(number: int, method: str, params: dict[str, object]) -> bytes:
    """Return a JSON-RPC request as a line."""
    request = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
    return json.dumps(request, ensure_ascii=True, allow_nan=False).encode("ascii") + b"\n"


def _greeting(said: object, *, host: str) -> Greeting:
    fields = said if isinstance(said, dict) else {}
    newest = fields.get("protocol")
    oldest = fields.get("oldest_protocol", newest)
    if not _is_number(newest) or not _is_number(oldest):
        raise ProvisionFailed(
            f"the agent speaks protocol {sanitize_line(newest)}, which is not a valid version", host=host
        )
    if newest < OLDEST_PROTOCOL or oldest > PROTOCOL:
        version = sanitize_line(fields.get("version"), 40)
        older = "this armada" if oldest > PROTOCOL else f"the agent on {host}"
        raise ProvisionFailed(
            f"the agent (version {version}) speaks protocol {_span(oldest, newest)}, "
            f"this armada ({__version__}) {_span(OLDEST_PROTOCOL, PROTOCOL)}",
            hint=f"{older} is the older one: update armada {'here' if oldest > PROTOCOL else 'where that agent comes from'}",
            host=host,
        )
    root = fields.get("root")
    if not isinstance(root, str) or not root.startswith("/") or has_control_characters(root):
        raise ProvisionFailed(f"the agent reported an unusable root folder: {sanitize_line(root)}", host=host)
    return Greeting(newest, root)


def _is_number(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _span(oldest: int, newest: int) -> str:
    return str(newest) if oldest == newest else f"{oldest} to {newest}"


def _start_failure(told: object, *, host: str) -> ArmadaError:
    fields = told if isinstance(told, dict) else {}
    said = sanitize_line(fields.get("message", "the bootstrap failed"))
    if fields.get("kind") == "not_found":
        error = NothingThere(said, host=host)
        error.root = read_object(str(fields.get("root") or "").encode()) or {}
        return error
    hint = fields.get("hint")
    hint = sanitize_line(hint) if isinstance(hint, str) else _HINTS.get(str(fields.get("kind")))
    return ProvisionFailed(f"the agent could not start: {said}", hint=hint, host=host)
