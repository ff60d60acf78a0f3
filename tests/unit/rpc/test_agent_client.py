"""The home side of the agent's protocol, against a small agent of the test's own in a real process."""

from __future__ import annotations

import hashlib
import io
import json
import os
import threading
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from armada.errors import ArmadaError, Conflict, LinkLost, NotFound, ProvisionFailed
from armada.paths import HomePaths
from armada.rpc.client import Agent
from armada.rpc.connection import LINE_LIMIT_BYTES
from armada.transport.interface import Channel
from armada.transport.local import LocalTransport
from tests import interpreters

SMALL_AGENT = """
import itertools, json, os, sys, threading

def serve(root, nonce, agent_path, stdin, pending):
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    lock = threading.Lock()

    def say(text):
        with lock:
            out.write(text.encode() + b"\\n")
            out.flush()

    def answer(request):
        number, method, params = request["id"], request["method"], request["params"]
        reply = {"jsonrpc": "2.0", "id": number}
        if method == "echo":
            reply["result"] = params
        elif method == "pending":
            reply["result"] = {"count": len(pending)}
        elif method == "progress":
            for fraction in (0.5, None):
                note = {"id": number, "message": "half \\x1b]52;c;x\\x07", "fraction": fraction}
                say(json.dumps({"jsonrpc": "2.0", "method": "progress", "params": note}))
            reply["result"] = {}
        elif method == "fail":
            reply["error"] = {"code": -32000, "message": params["message"], "data": {"kind": params["kind"], "hint": "try"}}
        elif method == "print":
            print("a stray print")
            say(params["text"])
            reply["result"] = {}
        elif method == "long":
            reply["result"] = {"text": "x" * params["size"]}
        elif method == "die":
            os.write(2, b"dying \\x1b[31mwords\\n")
            os._exit(3)
        elif method == "silence":
            return
        else:
            reply["error"] = {"code": -32601, "message": "no such method"}
        say(json.dumps(reply))

    say("\\n@@ARMADA " + json.dumps({"nonce": "somebody else's", "hello": {"protocol": 9}}))
    hello = {"protocol": PROTOCOL, "version": "0", "python": sys.version.split()[0], "root": root, "identity": {}}
    if OLDEST is not None:
        hello["oldest_protocol"] = OLDEST
    say("\\n@@ARMADA " + json.dumps({"nonce": nonce, "hello": hello}))
    for line in itertools.chain(pending, iter(stdin.readline, b"")):
        threading.Thread(target=answer, args=(json.loads(line.decode()),)).start()
"""


def pack(source: str = SMALL_AGENT, *, protocol: object = 1, oldest: object = None) -> tuple[bytes, str]:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("armada_agent/__init__.py", f"PROTOCOL = {protocol}\n")
        archive.writestr("armada_agent/rpc/__init__.py", "")
        archive.writestr("armada_agent/rpc/serve.py", f"PROTOCOL, OLDEST = {protocol}, {oldest}\n{source}")
    return buffer.getvalue(), hashlib.sha256(buffer.getvalue()).hexdigest()


@dataclass(frozen=True)
class Here:
    name: str = "local"
    ssh: str | None = None
    local: bool = True
    root: str | None = None
    identity: Path | None = None
    transport: str = "fabric"
    reuse_only: bool = False


@pytest.fixture
def home(tmp_path: Path) -> HomePaths:
    return HomePaths(config=tmp_path / "config", state=tmp_path / "state")


@pytest.fixture
def connect(home: HomePaths) -> Iterator[Callable[..., Agent]]:
    opened: list[Agent | LocalTransport] = []

    def open_agent(
        archive: tuple[bytes, str] | None = None, python: str | None = None, root: str | None = None
    ) -> Agent:
        transport = LocalTransport(Here(root=root), python=python)
        agent = Agent.open(transport, home, archive=archive or pack())
        opened.extend([transport, agent])
        return agent

    yield open_agent
    for thing in reversed(opened):
        thing.close()


@pytest.mark.parametrize("python", interpreters.chosen().values(), ids=interpreters.chosen())
def test_the_bootstrap_runs_on_every_python_of_this_machine(python: str, connect: Callable[..., Agent]) -> None:
    cold = connect(python=python)
    assert cold.call("echo", {"n": 1}) == {"n": 1}
    warm = connect(python=python)
    assert warm.call("echo", {"n": 2}) == {"n": 2}


def test_a_cold_host_gets_the_agent_and_keeps_it_privately_under_its_hash(
    connect: Callable[..., Agent], home: HomePaths
) -> None:
    archive, sha256 = pack()
    agent = connect((archive, sha256))
    assert agent.hello.root == str(home.local_root)
    kept = home.local_root / "agent" / f"{sha256}.pyz"
    assert kept.read_bytes() == archive
    assert kept.stat().st_mode & 0o777 == 0o600
    assert home.local_root.stat().st_mode & 0o777 == 0o700
    assert [path.name for path in kept.parent.iterdir()] == [kept.name]


def test_requests_written_before_the_agent_is_there_are_answered(connect: Callable[..., Agent]) -> None:
    with ThreadPoolExecutor(8) as pool:
        agent = connect()
        answers = list(pool.map(lambda n: agent.call("echo", {"n": n}), range(8)))
    assert answers == [{"n": n} for n in range(8)]


def test_a_damaged_agent_on_the_host_is_replaced(connect: Callable[..., Agent], home: HomePaths) -> None:
    archive, sha256 = pack()
    kept = home.local_root / "agent" / f"{sha256}.pyz"
    kept.parent.mkdir(parents=True)
    kept.write_bytes(archive[:100])
    assert connect((archive, sha256)).call("echo", {}) == {}
    assert kept.read_bytes() == archive


def test_an_agent_that_arrives_damaged_is_refused(connect: Callable[..., Agent], home: HomePaths) -> None:
    archive, sha256 = pack()
    with pytest.raises(ProvisionFailed, match="arrived damaged"):
        connect((archive + b"x", sha256)).call("echo", {})
    assert list((home.local_root / "agent").iterdir()) == []


def test_a_root_that_is_a_file_is_explained(connect: Callable[..., Agent], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ProvisionFailed, match="File exists"):
        _ = connect(root=str(tmp_path / "file")).hello


def test_every_value_in_the_root_is_literal(connect: Callable[..., Agent], tmp_path: Path) -> None:
    root = tmp_path / 'it\'s "q" $(touch x) — ü;'
    assert connect(root=str(root)).hello.root == str(root)
    assert root.is_dir()
    with pytest.raises(ProvisionFailed, match="unusable root folder"):
        _ = connect(root=f"{root}\n").hello


def test_modules_of_the_same_name_in_home_or_pythonpath_are_not_imported(
    connect: Callable[..., Agent], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("json", "base64", "hashlib", "armada_agent"):
        (tmp_path / f"{module}.py").write_text("raise SystemExit('the wrong module')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert connect().call("echo", {}) == {}


def test_errors_of_the_agent_become_the_right_classes(connect: Callable[..., Agent]) -> None:
    agent = connect()
    for kind, expected in {
        "not_found": NotFound,
        "conflict": Conflict,
        "environment": ProvisionFailed,
        "disk_full": ProvisionFailed,
        "bad_request": ArmadaError,
        "$(x)": ArmadaError,
    }.items():
        with pytest.raises(ArmadaError, match="no run") as caught:
            agent.call("fail", {"kind": kind, "message": "no run \x1b[2J"})
        assert type(caught.value) is expected
        assert "\x1b" not in caught.value.message
        assert (caught.value.host, caught.value.hint) == ("local", "try")
    with pytest.raises(ArmadaError, match="does not know nonsense"):
        agent.call("nonsense", {})


def test_progress_is_reported_clean_and_a_faulty_callback_harms_nobody(connect: Callable[..., Agent]) -> None:
    agent = connect()
    seen: list[tuple[str, float | None]] = []

    def note(message: str, fraction: float | None) -> None:
        seen.append((message, fraction))
        raise RuntimeError("a fault in the screen")

    assert agent.call("progress", {}, on_progress=note) == {}
    assert [fraction for _, fraction in seen] == [0.5, None]
    assert all("half" in message and "\x1b" not in message for message, _ in seen)


def test_many_calls_are_in_flight_at_once(connect: Callable[..., Agent]) -> None:
    agent = connect()
    with ThreadPoolExecutor(32) as pool:
        answers = list(pool.map(lambda n: agent.call("echo", {"n": n, "text": "ü" * 2000})["n"], range(500)))
    assert answers == list(range(500))
    assert agent.received_bytes > 500 * 2000


def test_a_dead_agent_ends_every_call_with_link_lost_and_its_last_words(connect: Callable[..., Agent]) -> None:
    agent = connect()
    _ = agent.hello
    with ThreadPoolExecutor(5) as pool:
        waiting = [pool.submit(agent.call, "silence", {}) for _ in range(4)]
        last = pool.submit(agent.call, "die", {})
        for future in [*waiting, last]:
            with pytest.raises(LinkLost, match=r"dying .*words"):
                future.result(timeout=30)
    with pytest.raises(LinkLost, match="exit status 3"):
        agent.call("echo", {})


def test_no_answer_in_time_is_link_lost_and_others_go_on(connect: Callable[..., Agent]) -> None:
    agent = connect()
    _ = agent.hello  # its start is not what is waited for
    with pytest.raises(LinkLost, match=r"no answer to silence within 0\.05 s"):
        agent.call("silence", {}, timeout_s=0.05)
    assert agent.call("echo", {"n": 1}) == {"n": 1}


def test_closing_ends_waiting_calls(connect: Callable[..., Agent]) -> None:
    agent = connect()
    _ = agent.hello
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(agent.call, "silence", {})
        agent.close()
        with pytest.raises(LinkLost):
            waiting.result(timeout=30)
    agent.close()


def test_what_is_no_answer_is_kept_as_noise(connect: Callable[..., Agent]) -> None:
    agent = connect()
    agent.call("print", {"text": "not json"})
    agent.call("print", {"text": "[" * 100_000})
    agent.call("print", {"text": json.dumps({"jsonrpc": "2.0", "id": 10**6, "result": {}})})
    agent.call("print", {"text": json.dumps({"method": "progress", "params": [1]})})
    assert agent.call("echo", {"n": 1}) == {"n": 1}
    assert "not json" in agent.noise
    assert "somebody else's" in agent.noise
    assert len(agent.noise) <= 65536


def test_lines_over_the_limit_are_refused_both_ways(connect: Callable[..., Agent]) -> None:
    agent = connect()
    with pytest.raises(ArmadaError, match="the limit is 8 MiB"):
        agent.call("echo", {"text": "x" * LINE_LIMIT_BYTES})
    assert len(str(agent.call("long", {"size": 4 << 20})["text"])) == 4 << 20
    with pytest.raises(LinkLost, match="more than 8 MiB"):
        agent.call("long", {"size": LINE_LIMIT_BYTES})


@pytest.mark.parametrize(
    ("spoken", "said", "remedy"),
    [
        ({"protocol": 7}, "speaks protocol 7, this armada", "update armada here"),
        ({"protocol": 9, "oldest": 4}, "speaks protocol 4 to 9, this armada", "update armada here"),
        ({"protocol": 0}, "speaks protocol 0, this armada", "update armada where that agent comes from"),
        ({"protocol": "'1'"}, "which is not a valid version", None),
        ({"protocol": "True"}, "which is not a valid version", None),
    ],
)
def test_an_agent_of_a_protocol_too_far_away_is_refused_with_who_is_behind(
    connect: Callable[..., Agent], spoken: dict[str, Any], said: str, remedy: str | None
) -> None:
    with pytest.raises(ProvisionFailed, match=said) as caught:
        connect(pack(**spoken)).call("echo", {})
    assert (remedy or "") in (caught.value.hint or "")


def test_a_newer_agent_that_still_understands_us_is_spoken_with(connect: Callable[..., Agent]) -> None:
    assert connect(pack(protocol=7, oldest=1)).call("echo", {"a": 1}) == {"a": 1}


def test_an_interpreter_that_is_not_there_is_said_plainly(connect: Callable[..., Agent]) -> None:
    with pytest.raises(ProvisionFailed, match="no python3 on this host"):
        connect(python="/nowhere/python3").call("echo", {})


class ScriptedChannel:
    """A far end that says given bytes, for what no well-meaning program says."""

    def __init__(self, says: Callable[[str], list[bytes]]) -> None:
        self._says = says
        self._ready = threading.Event()
        self._written = b""
        self._chunks: list[bytes] | None = None
        self.closed = False

    def write(self, data: bytes) -> None:
        self._written += data
        self._ready.set()

    def read(self) -> bytes:
        self._ready.wait(10)
        if self._chunks is None:
            length, _, rest = self._written.partition(b"\n")
            self._chunks = self._says(json.loads(rest[int(length) :].splitlines()[0])["nonce"])
        return self._chunks.pop(0) if self._chunks else b""

    def close(self) -> None:
        self.closed = True

    def diagnosis(self) -> str:
        return "(exit status 0)"


def talk(says: Callable[[str], list[bytes]]) -> Agent:
    channel: Channel = ScriptedChannel(says)
    return Agent(channel, host="h", root="~/.armada", archive=(b"", "0" * 64))


def hello_line(nonce: str) -> bytes:
    hello = {"protocol": 1, "version": "0", "python": "3", "root": "/r", "identity": {}}
    return b"@@ARMADA " + json.dumps({"nonce": nonce, "hello": hello}).encode() + b"\n"


@pytest.mark.parametrize(
    "noise",
    [
        b"",
        b"Welcome to Ubuntu\n",
        b'{"jsonrpc": "2.0", "id": 1, "result": {}}\n',
        b"\xff\xfe\x00binary without newline",
        b"@@ARMADA {\n@@ARMADA []\n@@ARMADA",
        b'@@ARMADA {"nonce": "guess", "hello": {"protocol": 1, "root": "/evil"}}',
        b"[" * 200_000,
        b"x" * (LINE_LIMIT_BYTES + 100),
    ],
)
def test_noise_before_the_hello_is_tolerated(noise: bytes) -> None:
    slice_bytes = max(7, len(noise) // 100)

    def says(nonce: str) -> list[bytes]:
        stream = noise + b"\n" + hello_line(nonce)
        return [stream[start : start + slice_bytes] for start in range(0, len(stream), slice_bytes)]

    agent = talk(says)
    assert agent.hello.root == "/r"
    assert len(agent.noise) <= 65536


def test_an_agent_that_greets_while_it_is_closed_is_no_failure(caplog: pytest.LogCaptureFixture) -> None:
    """Ctrl-C during the hello: nothing is printed, and a caller that waits learns of the close."""
    closing: list[Agent] = []
    opened = threading.Event()

    def says(nonce: str) -> list[bytes]:
        opened.wait()
        closing[0].close()  # just before the line is read
        return [hello_line(nonce)]

    agent = talk(says)
    closing.append(agent)
    opened.set()
    with pytest.raises(LinkLost, match="closed the connection"):
        _ = agent.hello
    assert not caplog.records


@pytest.mark.parametrize("root", ["relative", "/a\nb", 7, None])
def test_a_hello_with_a_hostile_root_is_refused(root: object) -> None:
    def says(nonce: str) -> list[bytes]:
        return [b"@@ARMADA " + json.dumps({"nonce": nonce, "hello": {"protocol": 1, "root": root}}).encode() + b"\n"]

    with pytest.raises(ProvisionFailed, match="unusable root folder"):
        _ = talk(says).hello


def test_a_far_end_that_only_talks_and_ends_is_explained() -> None:
    with pytest.raises(ProvisionFailed, match="This account is currently not available"):
        _ = talk(lambda _: [b"This account is currently not available.\n"]).hello


def test_closing_ends_the_agent(connect: Callable[..., Agent], tmp_path: Path) -> None:
    note = tmp_path / "pid"
    agent = connect(pack(f"import os\nopen({str(note)!r}, 'w').write(str(os.getpid()))\n{SMALL_AGENT}"))
    _ = agent.hello
    pid = int(note.read_text())
    agent.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
