"""Send an environment's files to home, and receive those of an environment that home sends."""

import os
import re
from typing import Any, Dict, List, Tuple

from armada_agent.errors import AgentError
from armada_agent.foundation import parameters
from armada_agent.foundation.session import Call
from armada_agent.paths import checked_digest
from armada_agent.provision import build_claim, content, environment_folder, packing, unpacking
from armada_agent.rpc import file_blocks, receiving

_MOST_FILES = 4000


def read(call: Call, params: Dict[str, Any]) -> None:
    """Answer with `{"size_bytes": n}` and, after that line, the requested parts of files one after the other.

    Raises:
        AgentError: `not_found`; `bad_request`: a path leads out of the environment.
    """
    key = environment_folder.checked_key(params.get("key"))
    digest = checked_digest(params.get("digest"))
    parts = [_part(entry) for entry in parameters.sequence(params, "files")]
    if not 0 < len(parts) <= _MOST_FILES:
        raise AgentError("bad_request", "`files` must name 1 to %d files" % _MOST_FILES)
    tops = packing.tops(call.root, key)
    located = [(_locate(call.root, key, digest, tops, name), offset, length) for name, offset, length in parts]

    def pour(output: int) -> None:
        for path, offset, length in located:
            _send(path, output, offset, length)

    call.answer({"size_bytes": sum(length for _, _, length in parts)}, pour)


def receive(call: Call, params: Dict[str, Any]) -> Dict[str, Any]:
    """Read a tar stream into an environment's staging folder, as `content.receive` does. Nothing is read if it is ready by now.

    Raises:
        AgentError: As in `receiving.receive`.
    """
    receiving.require_main_thread()
    key = environment_folder.checked_key(params.get("key"))
    with build_claim.hold(call, key):
        if environment_folder.status(call.root, key) == "ready":
            return {"files": 0}
        return {"files": receiving.take_all(call, environment_folder.staging(call.root, key))}


def _part(entry: Any) -> Tuple[str, int, int]:
    if not isinstance(entry, list) or len(entry) != 3 or not content.is_safe(entry[0]):
        raise AgentError("bad_request", "an entry of `files` is [path, offset, length]")
    numbers: List[int] = [each for each in entry[1:] if isinstance(each, int) and not isinstance(each, bool)]
    if len(numbers) != 2 or min(numbers) < 0:
        raise AgentError("bad_request", "%.200s: wrong offset or length" % entry[0])
    return entry[0], numbers[0], numbers[1]


def _locate(root: str, key: str, digest: str, tops: Dict[str, str], name: str) -> str:
    if name == unpacking.LIST:
        return packing.list_path(root, key, digest)
    kind, _, path = name.partition("/")
    if kind not in tops or not path or re.search(r"(^|/)READY$", path):
        raise AgentError("bad_request", "%.200r is not a file of an environment" % name)
    return os.path.join(tops[kind], path)


def _send(path: str, output: int, offset: int, length: int) -> None:
    """Send a part of a file. A missing or shorter one is filled up: home's hashes notice, and the bytes keep their places."""
    try:
        # A link in an environment may stand for a file in uv's cache.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        descriptor = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    try:
        file_blocks.copy(descriptor, output, offset, length)
    finally:
        os.close(descriptor)
