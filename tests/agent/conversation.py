"""A home for tests: starts the agent as the bootstrap's second half does, and asks it things over pipes."""

from __future__ import annotations

import functools
import itertools
import json
import os
import queue
import subprocess
import threading
from typing import TYPE_CHECKING, Any

from jsonschema import Draft202012Validator

from armada.paths import bundled
from tests.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

NONCE = "6e6f6e6365"
GONE = "the agent is gone"
_START = (
    "import sys, json; head = json.loads(sys.stdin.buffer.readline().decode()); "
    "sys.path.insert(0, head['agent_path']); from armada_agent.rpc.serve import serve; "
    "serve(stdin=sys.stdin.buffer, pending=[line.encode() for line in head.pop('pending')], **head)"
)


_PROTOCOL: dict[str, Any] = json.loads(bundled("remote_payload", "protocol.json").read_text("utf-8"))


def check(value: object, *where: str) -> None:
    """Hold a value against a schema of protocol.json, such as `check(answer, "methods", "run.log", "result")`."""
    schema = _PROTOCOL
    for name in where:
        schema = schema[name]
    problems = [f"{error.json_path}: {error.message}" for error in _validator(json.dumps(schema)).iter_errors(value)]
    assert not problems, f"{'/'.join(where)}: {problems}"


@functools.cache
def _validator(schema: str) -> Draft202012Validator:
    return Draft202012Validator({"$defs": _PROTOCOL["$defs"], **json.loads(schema)})


class Refused(Exception):
    """The agent answered with an error."""

    def __init__(self, error: Mapping[str, Any]) -> None:
        super().__init__(error["message"])
        self.code: int = error["code"]
        data = error.get("data") or {}
        self.kind: str | None = data.get("kind")
        self.hint: str | None = data.get("hint")


class Conversation:
    """One agent process and the questions to it."""

    def __init__(
        self,
        python: str,
        agent: Path,
        root: Path,
        environment: Mapping[str, str] | None = None,
        pending: list[str] | None = None,
        setup: list[str] | None = None,
    ) -> None:
        self.root = root
        self._ids = itertools.count(1)
        self._answers: dict[int, queue.Queue[dict[str, Any]]] = {}
        self._asked: dict[int, tuple[str, Mapping[str, Any]]] = {}
        self.progress: list[dict[str, Any]] = []
        self.unasked: list[dict[str, Any]] = []
        root.mkdir(mode=0o700, exist_ok=True)
        self.process = subprocess.Popen(
            [python, "-c", _START],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=dict(os.environ if environment is None else environment),
        )
        head = {
            "root": str(root),
            "nonce": NONCE,
            "agent_path": str(agent),
            "pending": pending or [],
            "setup": setup or [],
        }
        self._write(head)
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == b"\n"
        mark, _, hello = self.process.stdout.readline().partition(b" ")
        assert mark == b"@@ARMADA"
        self.hello: dict[str, Any] = json.loads(hello)
        check(self.hello, "lines", "hello")
        threading.Thread(target=self._read, daemon=True).start()

    def _write(self, message: object) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def write_raw(self, line: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line)
        self.process.stdin.flush()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            message = json.loads(line)
            if message.get("method") == "progress":
                check(message, "lines", "progress")
                self.progress.append(message["params"])
            elif message.get("id") in self._answers:
                self._answers[message["id"]].put(message)
            else:
                self.unasked.append(message)
        for waiting in self._answers.values():
            waiting.put({"jsonrpc": "2.0", "id": None, "error": {"code": 0, "message": GONE}})

    def ask(self, method: str, params: Mapping[str, Any]) -> int:
        number = next(self._ids)
        self._answers[number] = queue.Queue()
        self._asked[number] = (method, params)
        self._write({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        return number

    def answer(self, number: int, timeout_s: float = 180.0) -> dict[str, Any]:
        message = self._answers[number].get(timeout=timeout_s)
        if "error" in message:
            check(message, "lines", "refusal")
            raise Refused(message["error"])
        method, params = self._asked[number]
        check(message, "lines", "answer")
        check(params, "methods", method, "params")
        check(message["result"], "methods", method, "result")
        result: dict[str, Any] = message["result"]
        return result

    def call(self, method: str, /, timeout_s: float = 180.0, **params: Any) -> dict[str, Any]:
        return self.answer(self.ask(method, params), timeout_s)

    def hang_up(self) -> int:
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.process.wait()


def spec_of(run_id: str, /, *argv: str, **changes: Any) -> dict[str, Any]:
    """Compose the smallest plan that runs a command."""
    spec: dict[str, Any] = {
        "format": 1,
        "run_id": run_id,
        "name": run_id,
        "task": "command",
        "created_at": 1700000000.0,
        "host": "here",
        "profile": "cpu",
        "job": {"argv": list(argv), "env": {}, "code": None, "secrets": []},
        "gpus": 0,
        "processes": 1,
        "environment": None,
        "stop_grace_s": 5.0,
        "outbox": {"keep": 3, "disk_floor_bytes": 0},
        "training": None,
        "experiment": {},
    }
    job = changes.pop("job", {})
    spec["job"].update(job)
    spec.update(changes)
    return spec


class Host:
    """The runs under one root, as a test wants to see them."""

    def __init__(self, conversation: Conversation) -> None:
        self.conversation = conversation
        self.call = conversation.call
        self.root = conversation.root

    def folder(self, run_id: str) -> Path:
        return self.root / "runs" / run_id

    def create(
        self, run_id: str, /, *argv: str, secrets: Mapping[str, str] | None = None, **changes: Any
    ) -> dict[str, Any]:
        spec = spec_of(run_id, *argv, **changes)
        return self.call("run.create", run_id=run_id, spec=spec, files={}, secrets=dict(secrets or {}))

    def launch(
        self, run_id: str, /, *argv: str, secrets: Mapping[str, str] | None = None, **changes: Any
    ) -> dict[str, Any]:
        self.create(run_id, *argv, secrets=secrets, **changes)
        return self.call("run.submit", run_id=run_id, submission=1)

    def look(self, run_id: str) -> dict[str, Any]:
        question = [{"run_id": run_id, "metrics_offset": 0, "events_offset": 0}]
        entry: dict[str, Any] = self.call("run.observe", runs=question)["runs"][0]
        return entry

    def state(self, run_id: str) -> dict[str, Any]:
        return (self.look(run_id)["evidence"] or {}).get("state") or {}

    def await_state(self, run_id: str, *words: str, submission: int = 1) -> dict[str, Any]:
        def look() -> dict[str, Any] | None:
            state = self.state(run_id)
            return state if state.get("state") in words and state["submission"] >= submission else None

        found = eventually(look)
        assert found is not None
        return found

    def await_end(self, run_id: str) -> dict[str, Any]:
        return self.await_state(run_id, "succeeded", "failed", "cancelled")

    def events(self, run_id: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.look(run_id)["events"]["text"].splitlines()]

    def output(self, run_id: str) -> str:
        text: str = self.call("run.log", run_id=run_id)["text"]
        return text
