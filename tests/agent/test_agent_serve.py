"""The conversation itself: hello, many questions at once, noise, nonsense, and hanging up."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from jsonschema import Draft202012Validator

import armada
from armada.paths import bundled
from armada.rpc import agent_archive
from tests.agent.conversation import NONCE, Conversation, Host, Refused
from tests.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable


def test_hello_says_who_answers(converse: Callable[..., Conversation], python: str, root: Path) -> None:
    conversation = converse(python)
    assert conversation.hello["nonce"] == NONCE
    hello = conversation.hello["hello"]
    version = subprocess.run([python, "-V"], capture_output=True, text=True, check=True).stdout.split()[1]
    assert hello["python"] == version.partition("+")[0]
    assert (hello["version"], hello["root"]) == (armada.__version__, str(root))
    assert hello["identity"]["pid"] == conversation.process.pid
    assert conversation.hang_up() == 0


def test_requests_that_came_before_the_agent_are_answered(converse: Callable[..., Conversation]) -> None:
    request = json.dumps({"jsonrpc": "2.0", "id": 77, "method": "run.list", "params": {}}) + "\n"
    conversation = converse(pending=[request])
    answer = eventually(lambda: conversation.unasked)[0]
    assert (answer["id"], answer["result"]) == (77, {"runs": []})


def test_many_questions_are_in_flight_at_once(host: Host) -> None:
    numbers = [host.conversation.ask("run.list", {}) for _ in range(200)]
    numbers += [host.conversation.ask("host.facts", {}) for _ in range(3)]
    answers = [host.conversation.answer(number) for number in reversed(numbers)]
    assert [("hostname" in answer, "runs" in answer) for answer in answers] == [(True, False)] * 3 + [
        (False, True)
    ] * 200


def test_a_slow_question_delays_no_other(this_host: Host, root: Path) -> None:
    (root / "envs").mkdir()
    with (root / "envs/slow.lock").open("w") as lock:
        import fcntl

        fcntl.flock(lock, fcntl.LOCK_EX)
        params = {"key": "slow", "requirements": "", "python": "3.11"}
        waiting = [this_host.conversation.ask("environment.ensure", params) for _ in range(10)]
        eventually(lambda: len(this_host.conversation.progress) == 10)
        assert {entry["message"] for entry in this_host.conversation.progress} == {"another build is running"}
        assert {entry["id"] for entry in this_host.conversation.progress} == set(waiting)
        assert this_host.call("run.list") == {"runs": []}
        assert this_host.conversation.hang_up() == 0


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"nonsense\n", -32700),
        (b"\xff\xfe\n", -32700),
        (b"[" * 100_000 + b"\n", -32700),
        (b"[]\n", -32600),
        (b'{"id": 5}\n', -32600),
        (b'{"jsonrpc": "2.0", "id": 5, "method": "run.list", "params": []}\n', -32602),
    ],
)
def test_nonsense_is_answered_and_survived(this_host: Host, line: bytes, code: int) -> None:
    this_host.conversation.write_raw(b"\n" + line)
    answer = eventually(lambda: this_host.conversation.unasked)[0]
    assert answer["error"]["code"] == code
    assert this_host.call("run.list") == {"runs": []}


def test_an_unknown_method_has_its_own_code(this_host: Host) -> None:
    with pytest.raises(Refused) as refused:
        this_host.call("run.explode")
    assert refused.value.code == -32601


def test_what_is_printed_by_mistake_does_not_reach_the_answers(agent: Path, root: Path) -> None:
    program = (
        f"import sys, os; sys.path.insert(0, {str(agent)!r})\n"
        "from armada_agent.provision import facts\nfrom armada_agent.rpc import serve\n"
        "facts.describe = lambda call, params: (print('oops'), os.system('echo oops'), {})[2]\n"
        f"serve.serve(root={str(root)!r}, nonce='n', agent_path='', stdin=sys.stdin.buffer)\n"
    )
    asked = b'{"jsonrpc": "2.0", "id": 1, "method": "host.facts", "params": {}}\n'
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write(asked)
        process.stdin.flush()
        assert process.stdout.readline() == b"\n"
        assert process.stdout.readline().startswith(b"@@ARMADA ")
        assert json.loads(process.stdout.readline()) == {"jsonrpc": "2.0", "id": 1, "result": {}}
        process.stdin.close()
        assert process.stdout.read() == b""
        assert process.stderr.read().count(b"oops") == 2


def test_the_archive_is_the_same_wherever_it_is_built() -> None:
    content, sha256 = agent_archive.build()
    agent_archive.build.cache_clear()
    assert agent_archive.build() == (content, sha256)
    import io

    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        names = archive.namelist()
        assert names == sorted(names)
        assert names[0] == "__main__.py"
        assert {entry.date_time for entry in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
        assert {entry.compress_type for entry in archive.infolist()} == {zipfile.ZIP_STORED}


def test_the_archive_starts_under_every_interpreter(python: str, agent: Path) -> None:
    refused = subprocess.run([python, "-I", str(agent)], capture_output=True, text=True, check=False)
    assert refused.returncode == 2
    assert "supervise" in refused.stderr


@pytest.mark.parametrize(
    "path", sorted(bundled("remote_payload", "armada_agent").rglob("*.py")), ids=lambda path: path.stem
)
def test_every_module_keeps_to_the_grammar_of_python_3_6(path: Path) -> None:  # and `make lint`, to its library
    ast.parse(path.read_text("utf-8"), feature_version=(3, 6))


def test_every_method_of_the_protocol_is_there_and_no_other() -> None:
    from armada_agent.rpc import serve

    protocol = json.loads(bundled("remote_payload", "protocol.json").read_text("utf-8"))
    assert set(protocol["methods"]) == set(serve.METHODS)
    for method in serve.METHODS.values():
        assert callable(serve.find_method(method))


def test_both_sides_speak_the_protocol_that_is_written_down() -> None:
    import armada_agent

    from armada.protocol import version

    written = json.loads(bundled("remote_payload", "protocol.json").read_text("utf-8"))["versions"]
    for side in (armada_agent, version):
        assert (written["protocol"], written["oldest_protocol"]) == (side.PROTOCOL, side.OLDEST_PROTOCOL)


def test_the_protocol_is_a_json_schema_whose_references_lead_somewhere() -> None:
    protocol = json.loads(bundled("remote_payload", "protocol.json").read_text("utf-8"))
    schemas = [*protocol["$defs"].values(), *protocol["lines"].values(), *protocol["files"].values()]
    schemas += [
        part for method in protocol["methods"].values() for name, part in method.items() if name != "description"
    ]
    for schema in schemas:
        Draft202012Validator.check_schema(schema)
    text = json.dumps(protocol)
    for name in {piece.partition('"')[0] for piece in text.split('"#/$defs/')[1:]}:
        assert name in protocol["$defs"]
