"""What home really says, byte for byte, held against protocol.json; tests/agent does the same for what agents answer."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from armada.cli.main import run as armada
from armada.paths import HomePaths
from armada.transport.bootstrap import MARK
from armada.transport.local import LocalChannel, LocalTransport
from tests.agent.conversation import check
from tests.commands.saved_run import SAVE
from tests.conftest import eventually

ASKED = {
    "content.check", "content.publish", "file.read", "host.facts", "outbox.ack", "outbox.manifest", "run.create",
    "run.log", "run.observe", "run.remove", "run.stop", "sync.look",
}  # fmt: skip


class Overheard:
    """A channel that keeps what passes."""

    def __init__(self, channel: LocalChannel) -> None:
        self._channel = channel
        self.said, self.heard = bytearray(), bytearray()
        self._lock = threading.Lock()

    def write(self, data: bytes) -> None:
        with self._lock:
            self.said += data
        self._channel.write(data)

    def read(self) -> bytes:
        data = self._channel.read()
        self.heard += data
        return data

    def close(self) -> None:
        self._channel.close()

    def diagnosis(self) -> str:
        return self._channel.diagnosis()


@pytest.fixture
def overheard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Overheard]]:
    """Every channel to `local` that is opened from now on; home is a folder of the test's own."""
    monkeypatch.setenv("ARMADA_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("ARMADA_NO_DAEMON", "1")
    monkeypatch.chdir(tmp_path)
    opened: list[Overheard] = []
    plain: Callable[[LocalTransport], LocalChannel] = LocalTransport.open_channel

    def open_channel(transport: LocalTransport) -> Overheard:
        opened.append(Overheard(plain(transport)))
        return opened[-1]

    monkeypatch.setattr(LocalTransport, "open_channel", open_channel)
    yield opened
    armada(["stop", "slow", "--grace", "0"])


def test_all_that_home_and_a_host_say_is_in_the_protocol(
    overheard: list[Overheard], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN", "hidden")
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "save.py").write_text(SAVE)
    saving = {
        "name": "saving", "task": "command", "command": ["python3", "save.py"], "code": "project",
        "secrets": ["TOKEN"], "sync": {"outputs": ["results/**", "scratch.tmp"]},
    }  # fmt: skip
    slow = {"name": "slow", "task": "command", "command": ["sleep", "1000"]}
    (tmp_path / "saving.yaml").write_text(json.dumps(saving))
    (tmp_path / "slow.yaml").write_text(json.dumps(slow))
    assert armada(["launch", "--host", "local", "saving.yaml", "--follow"]) == 0, capsys.readouterr().err
    assert armada(["launch", "--host", "local", "slow.yaml"]) == 0
    for words in (["ps"], ["logs", "saving"], ["sync", "now"], ["stop", "slow", "--grace", "0"], ["sync", "now"]):
        assert armada(words) == 0, words
    eventually(lambda: armada(["rm", "slow"]) == 0)
    eventually(lambda: armada(["rm", "saving"]) == 0)
    assert armada(["hosts", "release", "local", "--dry-run"]) in (0, 7)
    assert HomePaths.from_environment().store.exists()

    asked: dict[str, int] = {}
    for channel in overheard:
        for method in conversation(channel):
            asked[method] = asked.get(method, 0) + 1
    assert set(asked) >= ASKED, asked


@pytest.mark.parametrize("verb", ["launch", "prepare"])
@pytest.mark.usefixtures("overheard")
def test_the_plan_of_a_training_is_a_spec_of_the_protocol(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        armada([verb, "--host", "local", "quickstart", "--dry-run", "--json", "--set", "resources.time_limit=2h"]) == 0
    )
    spec = json.loads(capsys.readouterr().out)["spec"]
    check(spec, "files", "spec.json")
    assert spec["time_limit_s"] == 7200.0  # for the supervisor's own clock, where no batch system has one


def conversation(channel: Overheard) -> list[str]:
    """Check both sides of one channel; the methods that were asked."""
    length, _, rest = bytes(channel.said).partition(b"\n")
    head, *requests = rest[int(length) :].splitlines()
    check(json.loads(head), "lines", "head")
    methods: dict[int, str] = {}
    for line in requests:
        message = json.loads(line)
        if "agent" in message:
            check(message, "lines", "agent")
            continue
        check(message, "lines", "request")
        check(message["params"], "methods", message["method"], "params")
        methods[message["id"]] = message["method"]
    heard = bytes(channel.heard)
    while heard:
        line, _, heard = heard.partition(b"\n")
        if line.startswith(MARK):
            message = json.loads(line[len(MARK) :])
            check(message, "lines", "need" if "need" in message else "hello")
        elif line:
            heard = answer(json.loads(line), methods, heard)
    return list(methods.values())


def answer(message: dict[str, object], methods: dict[int, str], rest: bytes) -> bytes:
    """Check one line of an agent; what follows it."""
    if "method" in message:
        check(message, "lines", "progress")
    elif "error" in message:
        check(message, "lines", "refusal")
    else:
        check(message, "lines", "answer")
        number, result = message["id"], message["result"]
        assert isinstance(number, int)
        assert isinstance(result, dict)
        check(result, "methods", methods[number], "result")
        if methods[number] == "file.read":
            return rest[int(result["size_bytes"]) :]
    return rest
