"""`armada exec`, `ssh`, `forward` and `code` on this machine; tests/fleet/test_access.py has SSH hosts."""

from __future__ import annotations

import json
import os
import socket
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Armada, eventually
from tests.fleet.typist import Typist
from tests.free_port import kept_free
from tests.ssh_server import SshServer

HOSTILE = [
    "quote ' and \" here",
    "new\nline",
    "$(touch x)",
    "`touch x`",
    "größe 日本 🚀",
    "a\\b",
    "; touch x",
    "--",
    "",
]


def launch(armada: Armada, *argv: str, **more: Any) -> str:
    answer = armada.json("launch", "--host", "local", armada.command(*argv, **more))
    return str(answer["run_id"])


def test_a_command_sees_what_the_job_sees_less_its_secrets_and_its_marker(armada: Armada) -> None:
    armada.env["KEY"] = "hidden"
    show = "import os, json; print(json.dumps(dict(os.environ, cwd=os.getcwd())))"
    run_id = launch(armada, sys.executable, "-c", show, env={"MINE": "a b"}, secrets=["KEY"])
    armada.await_end(run_id)
    folder = armada.local_runs / run_id
    job = json.loads((folder / "output.log").read_text())
    done = armada.run("exec", run_id, "--", sys.executable, "-c", show)
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert seen["MINE"] == "a b"
    assert seen["cwd"] == str(folder / "work") == job["cwd"]
    assert seen["ARMADA_RUN_DIR"] == str(folder)
    own = {"KEY", "TERM", "COLORTERM", "DISPLAY", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"}
    own |= {name for name in job.keys() | seen.keys() if name.startswith(("ARMADA_", "SSH_", "TERM_"))}
    assert {n: v for n, v in seen.items() if n not in own} == {n: v for n, v in job.items() if n not in own}
    assert job["KEY"] == "hidden"
    assert "KEY" not in seen
    assert "ARMADA_RUN_ID" not in seen


@pytest.mark.parametrize("text", HOSTILE)
def test_words_are_literal(armada: Armada, text: str) -> None:
    done = armada.run("exec", "local", "--", sys.executable, "-c", "import sys; print(repr(sys.argv[1]))", text)
    assert done.stdout == f"{text!r}\n", done.stderr
    assert not [path for path in armada.folder.rglob("x") if path.name == "x"]


def test_words_that_are_not_utf8_arrive_as_they_are(box: Armada, server: SshServer) -> None:
    (server.bin / "python3").symlink_to(Path(sys.executable).resolve())  # other tests need a box without
    show = "import os, sys; print([os.fsencode(word) for word in sys.argv[1:]])"
    for host in ("local", "box"):
        done = box.run("exec", host, "--", sys.executable, "-c", show, os.fsdecode(b"a\xffb"), os.fsdecode(b"\xff"))
        assert done.stdout == f"{[b'a' + bytes([255]) + b'b', bytes([255])]}\n", done.stderr


def test_on_another_machine_too_a_signal_is_128_and_its_number(box: Armada, server: SshServer) -> None:
    (server.bin / "python3").symlink_to(Path(sys.executable).resolve())  # other tests need a box without
    killed = box.run("exec", "box", "--", "sh", "-c", "kill -KILL $$")
    assert (killed.returncode, killed.stderr) == (128 + 9, "")
    assert box.run("exec", "box", "--", "sh", "-c", "exit 7").returncode == 7
    missing = box.run("exec", "box", "--", "no-such-program")
    assert (missing.returncode, missing.stderr) == (127, "armada: no-such-program is not on this host\n")


def test_it_ends_as_the_command_ends(armada: Armada) -> None:
    assert armada.run("exec", "local", "--", "sh", "-c", "exit 7").returncode == 7
    missing = armada.run("exec", "local", "--", "no-such-program")
    assert (missing.returncode, missing.stderr) == (127, "armada: no-such-program is not on this host\n")
    line = armada.run("exec", "local", "--", "ls | wc")
    said = "armada: no program on this host is called 'ls | wc'; to run a line of shell: -- sh -c 'ls | wc'\n"
    assert (line.returncode, line.stderr) == (127, said)
    killed = armada.run("exec", "local", "--", "sh", "-c", "kill -TERM $$")
    assert killed.returncode == 128 + 15


def test_a_persons_program_goes_on_when_the_run_has_ended(armada: Armada) -> None:
    run_id = launch(armada, "sleep", "600")
    folder = armada.local_runs / run_id
    eventually((folder / "attempts/1/run.json").exists)
    waits = "touch begun; while [ ! -e go ]; do sleep 0.05; done; echo went on"
    with armada.start("exec", run_id, "--", "sh", "-c", waits) as program:
        try:
            eventually((folder / "work" / "begun").exists)
            assert armada.run("stop", run_id, "--grace", "0").returncode == 0
            armada.await_end(run_id)
        finally:
            (folder / "work" / "go").touch()
        out, err = program.communicate(timeout=60)
    assert (program.returncode, out) == (0, "went on\n"), err


def test_a_shell_stands_in_the_work_folder_and_needs_a_terminal(armada: Armada) -> None:
    run_id = launch(armada, "true")
    armada.await_end(run_id)
    refused = armada.run("ssh", run_id)
    assert refused.returncode == 2
    assert f"armada exec {run_id} -- COMMAND needs none" in refused.stderr
    armada.env["SHELL"] = "/bin/sh"
    with Typist(armada, "ssh", run_id) as person:
        person.waits_for(f"work folder of {run_id} on local")
        person.types("echo here: $PWD; exit 3")
        person.waits_for(f"here: {armada.local_runs / run_id / 'work'}")
        assert person.status() == 3


def test_what_is_neither_host_nor_run_is_7(armada: Armada) -> None:
    for words in (
        ("exec", "nowhere", "--", "true"),
        ("ssh", "nowhere"),
        ("code", "nowhere"),
        ("forward", "nowhere", "1"),
    ):
        refused = armada.run(*words)
        assert refused.returncode == 7
        assert "no host and no run is called 'nowhere'" in refused.stderr


def test_a_run_whose_folder_is_gone_is_said_to_be(armada: Armada) -> None:
    run_id = launch(armada, "true")
    armada.await_end(run_id)
    (armada.local_runs / run_id / "work").rmdir()
    refused = armada.run("exec", run_id, "--", "true")
    assert refused.returncode == 125
    assert "work: No such file or directory" in refused.stderr


@pytest.mark.parametrize("port", ["0", "99999", "a", "80:", "80:a", "1:2:3", "-1", "80:70000", "٣٣"])
def test_what_is_no_port_is_2(armada: Armada, port: str) -> None:
    refused = armada.run("forward", "local", "--", port)
    assert refused.returncode == 2
    assert "is not a port" in refused.stderr


def test_exec_without_a_command_says_how(armada: Armada) -> None:
    for words in (("exec", "local"), ("exec", "local", "--")):
        refused = armada.run(*words)
        assert refused.returncode == 2
        assert "armada exec local -- nvidia-smi" in refused.stderr


def test_a_host_that_never_answered_lost_no_connection(box: Armada, server: SshServer) -> None:
    server.stop()
    refused = box.run("forward", "box", "6006")
    assert refused.returncode == 4
    assert "no connection was made, so no port was forwarded" in refused.stderr
    assert "lost" not in refused.stderr
    assert "until you press Ctrl-C" not in refused.stderr


def test_a_port_is_said_to_be_forwarded_once_it_is(box: Armada, server: SshServer) -> None:
    with kept_free() as local, Typist(box, "forward", "box", f"{server.port}:{local}") as person:
        person.waits_for(f"localhost:{local} is port {server.port} of box until you press Ctrl-C")
        with socket.create_connection(("127.0.0.1", local)) as connection:
            assert connection.makefile("rb").readline().startswith(b"SSH-2.0-")
        server.cut()
        person.waits_for("box: the connection was lost")
        assert person.status() == 4
