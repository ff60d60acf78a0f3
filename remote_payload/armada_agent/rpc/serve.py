"""The connection with home: JSON-RPC 2.0, one object per line, many requests at once.

This module imports only what a hello needs. If the host's Python version is not home's, it compiles every module (1 ms
per 100 lines on a slow login node).
"""

import importlib
import json
import os
import queue
import sys
import threading
from typing import Any, BinaryIO, Dict, Iterable, Optional, cast

from armada_agent import OLDEST_PROTOCOL, PROTOCOL, __version__
from armada_agent.errors import AgentError, from_os_error
from armada_agent.foundation import process_identity
from armada_agent.foundation.files import UnseenError
from armada_agent.foundation.session import Call, Method, Session

METHODS = {
    "host.facts": "provision.facts:describe",
    "host.load": "host.telemetry:read_load",
    "host.examine": "host.examination:examine",
    "host.probe": "host.examination:probe",
    "run.create": "runs.folders:create",
    "run.list": "runs.folders:list_runs",
    "run.specs": "runs.folders:read_specs",
    "run.remove": "runs.folders:remove",
    "run.submit": "runs.submissions:submit",
    "run.stop": "runs.submissions:stop",
    "host.orphans": "runs.orphaned_processes:find",
    "sweep.start": "runs.sweeps:start",
    "sweep.tend": "runs.sweeps:tend",
    "run.explain": "runs.submissions:explain",
    "run.quota": "engines.allowance:describe",
    "scheduler.check": "runs.submissions:check",
    "scheduler.queue": "engines.queues:describe",
    "run.observe": "runs.observation:observe",
    "run.log": "runs.observation:read_log",
    "outbox.manifest": "outbox.listing:read_manifest",
    "outbox.ack": "outbox.listing:acknowledge",
    "outbox.prune": "outbox.pruning:prune",
    "homes.enroll": "outbox.homes:enroll",
    "homes.settle": "outbox.homes:settle",
    "homes.forget": "outbox.homes:forget",
    "sync.look": "runs.outputs:look",
    "sync.hash": "runs.outputs:hash_files",
    "file.read": "rpc.file_blocks:read",
    "host.wipe": "runs.wipe:wipe",
    "host.forget_wipe": "runs.wipe:forget_wipe",
    "host.forget_secrets": "runs.wipe:forget_secrets",
    "content.check": "provision.content:check",
    "content.publish": "provision.content:publish",
    "content.staged": "rpc.receiving:list_staged",
    "content.receive": "rpc.receiving:receive",
    "environment.ensure": "provision.environment:ensure",
    "environment.status": "provision.environment:report",
    "environment.pack": "provision.packing:pack",
    "environment.read": "rpc.packed_files:read",
    "environment.place": "provision.unpacking:place",
    "environment.receive": "rpc.packed_files:receive",
    "environment.unpack": "provision.unpacking:unpack",
    "files.look_up": "provision.sources:look_up",
    "files.fetch": "provision.downloads:fetch",
    "environment.examine": "provision.existing:examine",
    "container.examine": "provision.containers:examine",
    "container.ensure": "provision.containers:ensure",
    "data.show": "provision.preview:show",
    "model.find": "provision.models:find",
    "model.fetch": "provision.models:fetch",
}
_MOST_THREADS = 32
_LONGEST_REQUEST = 256 * 1024 * 1024
_LONGEST_MESSAGE = 8000


def serve(
    root: str, nonce: str, agent_path: str, stdin: BinaryIO, pending: Iterable[bytes] = (), setup: Iterable[str] = ()
) -> None:
    """Answer requests until home closes the connection; never return.

    Args:
        root: Absolute path of the host's root folder.
        nonce: Marks the agent's hello among other output of the login.
        agent_path: The zipapp that this code was imported from.
        stdin: The stream of requests.
        pending: Request lines that arrived before the agent.
        setup: Shell lines that set up the host; run when first needed.
    """
    if setup:
        from armada_agent.host import setup_lines

        setup_lines.use(setup)
    login_umask = os.umask(0o077)
    session = Session(root, agent_path, _private_output(), stdin, login_umask)
    hello = {
        "protocol": PROTOCOL,
        "oldest_protocol": OLDEST_PROTOCOL,
        "version": __version__,
        "python": "%d.%d.%d" % sys.version_info[:3],
        "root": root,
        "identity": process_identity.identify(),
    }
    session.write(b"\n@@ARMADA " + json.dumps({"nonce": nonce, "hello": hello}).encode("ascii") + b"\n")
    workers = _Workers(session)
    for line in pending:
        workers.take(line)
    while True:
        line = stdin.readline(_LONGEST_REQUEST)
        if not line.endswith(b"\n"):
            break
        if _is_followed(line):
            answer = _answer(session, line)
            if answer is not None:
                session.send(answer)
            break  # the following bytes are not lines
        workers.take(line)
    session.children.end_all()
    os._exit(0)  # threads may still be writing answers that nobody reads


def _is_followed(line: bytes) -> bool:
    """Return whether bytes follow a request, without parsing every line twice."""
    if b'.receive"' not in line[:256]:
        return False
    try:
        return json.loads(line.decode("utf-8")).get("method") in ("content.receive", "environment.receive")
    except (ValueError, AttributeError, RecursionError):
        return False  # the method that answers it reports the error


def _private_output() -> int:
    """Reserve stdout for answers; redirect all other output to stderr."""
    sys.stdout.flush()
    output = os.dup(1)
    os.dup2(2, 1)
    return output


class _Workers:
    """Threads that answer requests; each is started when it is needed."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._waiting: "queue.Queue[bytes]" = queue.Queue()
        self._lock = threading.Lock()
        self._idle = 0
        self._threads = 0

    def take(self, line: bytes) -> None:
        if not line.strip():
            return
        self._waiting.put(line)
        with self._lock:
            if self._idle >= self._waiting.qsize() or self._threads >= _MOST_THREADS:
                return
            self._threads += 1
        threading.Thread(target=self._work, daemon=True).start()

    def _work(self) -> None:
        while True:
            with self._lock:
                self._idle += 1
            line = self._waiting.get()
            with self._lock:
                self._idle -= 1
            answer = _answer(self._session, line)
            if answer is not None:
                self._session.send(answer)


def _answer(session: Session, line: bytes) -> Optional[Dict[str, Any]]:
    try:
        request = json.loads(line.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        return _failure(None, -32700, "not JSON: %s" % error)
    if not isinstance(request, dict) or not isinstance(request.get("method"), str):
        return _failure(None, -32600, "not a request")
    request_id = request.get("id")
    target = METHODS.get(request["method"])
    if target is None:
        return _failure(request_id, -32601, "no method %.100s" % request["method"])
    params = request.get("params", {})
    if not isinstance(params, dict):
        return _failure(request_id, -32602, "params must be an object")
    try:
        result = find_method(target)(Call(session, request_id), params)
    except AgentError as error:
        unexpected = error.kind in ("io", "internal")
        return _refusal(request_id, (_missing(session) if unexpected else None) or error)
    except OSError as error:
        return _refusal(request_id, _missing(session) or from_os_error(error))
    except UnseenError as error:
        return _refusal(request_id, _missing(session) or AgentError("io", str(error)))
    except Exception as error:
        gone = _missing(session)
        if gone is not None:
            return _refusal(request_id, gone)
        import traceback

        traceback.print_exc()
        return _refusal(request_id, AgentError("internal", "%s: %s" % (type(error).__name__, error)))
    if result is None:
        return None  # the method has already sent its answer
    return {"jsonrpc": "2.0", "id": request_id, "result": result}


def _missing(session: Session) -> Optional[AgentError]:
    """Explain why a method or file is not found: the root, and with it the agent's program, was deleted during this connection."""
    if os.path.exists(session.agent_path):
        return None
    message = "all of armada's below %s is gone: wiped a moment ago (armada hosts release --wipe), or no longer mounted"
    return AgentError("conflict", message % session.root, "run the same command again once the root is restored")


def find_method(target: str) -> Method:
    module, _, name = target.partition(":")
    return cast("Method", getattr(importlib.import_module("armada_agent." + module), name))


def _refusal(request_id: Any, error: AgentError) -> Dict[str, Any]:
    answer = _failure(request_id, -32000, error.message)
    answer["error"]["data"] = {"kind": error.kind, "hint": error.hint}
    return answer


def _failure(request_id: Any, code: int, message: str) -> Dict[str, Any]:
    return {"jsonrpc": "2.0", "id": request_id, "error": {"code": code, "message": message[:_LONGEST_MESSAGE]}}
