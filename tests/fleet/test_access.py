"""A person's own programs on SSH hosts, through the keys and connections that armada has: `armada exec`, `ssh`, `forward`, `code`."""

from __future__ import annotations

import json
import shlex
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.commands.test_access import HOSTILE
from tests.conftest import Armada, eventually
from tests.fleet import machines
from tests.fleet.conftest import Fleet
from tests.fleet.typist import Typist
from tests.free_port import kept_free

Add = Callable[..., None]
SERVE = """
import http.server, threading
server = http.server.HTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
open("port", "w").write(str(server.server_port))
server.serve_forever()
"""


@pytest.fixture
def add(armada: Armada, fleet: Fleet) -> Add:
    """A function that adds a host of the fleet the way a user would."""

    def add_host(machine: str, *more: str) -> None:
        up = fleet.host(machine)
        done = armada.run("hosts", "add", machine, up.target, "--identity", str(machines.IDENTITY), "--yes", *more)
        assert done.returncode == 0, done.stdout + done.stderr

    return add_host


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def page(port: int) -> str | None:
    """What a server says on a port of this machine; None where none answers."""
    try:
        with socket.create_connection(("127.0.0.1", port), 5) as connection:
            connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
            return connection.makefile("rb").read().decode() or None
    except OSError:
        return None


@pytest.mark.parametrize("transport", ["fabric", "openssh"])
def test_a_command_runs_in_a_runs_folder_and_words_stay_words(armada: Armada, add: Add, transport: str) -> None:
    add("workstation", "--transport", transport)
    run_id = armada.json("launch", "--host", "workstation", armada.command("true", env={"MINE": "a b"}), "--follow")[
        "run_id"
    ]
    show = "import json, os, sys; print(json.dumps([os.getcwd(), os.environ['MINE'], sys.argv[1:]]))"
    done = armada.run("exec", run_id, "--", "python3", "-c", show, *HOSTILE)
    assert done.returncode == 0, done.stderr
    folder, mine, words = json.loads(done.stdout)
    assert folder.endswith(f"/runs/{run_id}/work")
    assert (mine, words) == ("a b", HOSTILE)
    assert armada.run("exec", run_id, "--", "sh", "-c", "exit 7").returncode == 7
    assert armada.run("exec", "workstation", "--", "no-such-program").returncode == 127


@pytest.mark.parametrize("transport", ["fabric", "openssh"])
def test_a_shell_has_a_terminal_there_and_ctrl_c_reaches_its_program(armada: Armada, add: Add, transport: str) -> None:
    add("workstation", "--transport", transport)
    run_id = armada.json("launch", "--host", "workstation", armada.command("true"), "--follow")["run_id"]
    with Typist(armada, "ssh", run_id) as person:
        person.waits_for(f"work folder of {run_id} on workstation")
        person.types("tty && pwd")
        person.waits_for("/dev/pts/")
        person.waits_for(f"/runs/{run_id}/work")
        person.types("""sh -c "trap 'echo he''ard; exit 0' INT; echo rea''dy; while :; do sleep 0.1; done" """)
        person.waits_for("ready")
        person.presses(b"\x03")
        person.waits_for("heard")
        person.types("exit 3")
        assert person.status() == 3


@pytest.mark.parametrize("transport", ["fabric", "openssh"])
def test_a_port_is_forwarded_until_ctrl_c(armada: Armada, add: Add, transport: str) -> None:
    add("workstation", "--transport", transport)
    run_id = armada.json("launch", "--host", "workstation", armada.command("python3", "-c", SERVE))["run_id"]
    remote = eventually(lambda: armada.run("exec", run_id, "--", "cat", "port").stdout)
    with kept_free() as local, Typist(armada, "forward", run_id, f"{remote}:{local}") as person:
        person.waits_for(f"localhost:{local} is port {remote} of workstation until you press Ctrl-C")
        assert ">port</a>" in str(eventually(lambda: page(local)))
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            refused = armada.run("forward", run_id, f"{remote}:{port}")
            assert refused.returncode == 8
            assert f"port {port} of this machine cannot be used" in refused.stderr
        assert person.interrupts() == 0
        assert page(local) is None
    armada.run("stop", run_id, "--grace", "0")


@pytest.fixture
def short_home(armada: Armada) -> Iterator[None]:
    """A home whose sockets an editor can use wherever the tests' own folders lie."""
    with tempfile.TemporaryDirectory(prefix="armada-") as folder:
        armada.env["ARMADA_HOME"] = folder
        yield
        armada.run("hosts", "disconnect", "workstation")


def test_an_editor_cannot_use_a_shared_connection_far_down(armada: Armada, add: Add, tmp_path: Path) -> None:
    armada.env["ARMADA_HOME"] = str(tmp_path / ("h" * 100))
    add("workstation", "--transport", "openssh")
    refused = armada.run("code", "workstation")
    assert refused.returncode == 2
    assert "the path of its socket has more than 100 bytes" in refused.stderr
    armada.run("hosts", "disconnect", "workstation")


@pytest.mark.usefixtures("short_home")
@pytest.mark.parametrize("transport", ["fabric", "openssh"])
def test_the_editors_lines_reach_the_host_by_the_pinned_key(
    armada: Armada, add: Add, transport: str, tmp_path: Path
) -> None:
    add("workstation", "--transport", transport)
    done = armada.run("code", "workstation")
    assert done.returncode == 0, done.stderr
    (include,) = (line for line in done.stdout.splitlines() if line.startswith("Include "))
    (_, _, remote, folder) = shlex.split(done.stdout.splitlines()[-1])
    alias = remote.removeprefix("ssh-remote+")
    (tmp_path / "config").write_text(f"{include}\n")
    # As the editor does it: any folder, and a forwarded port.
    asked = ["ssh", "-F", str(tmp_path / "config"), "-D", str(free_port()), alias, "ls", folder]
    said = subprocess.run(asked, cwd="/", stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stderr
    assert "agent" in said.stdout.split()


@pytest.mark.parametrize("transport", ["fabric", "openssh"])
def test_files_are_copied_to_a_host_and_back(armada: Armada, add: Add, transport: str) -> None:
    add("workstation", "--transport", transport)
    folder = armada.folder / "things"
    (folder / "deep").mkdir(parents=True)
    content = bytes(range(256)) * 4000
    (folder / "deep" / "größe 日本").write_bytes(content)
    there = f"copied-{transport}"
    sent = armada.run("cp", "things", f"workstation:{there}")
    assert sent.returncode == 0, sent.stderr
    again = armada.run("cp", "things", f"workstation:{there}/")
    assert again.returncode == 0, again.stderr  # into the folder that is there now
    third = armada.run("cp", "things", f"workstation:{there}/")
    assert (third.returncode, "is there already" in third.stderr) == (8, True)
    back = armada.run("cp", f"workstation:{there}", "back")
    assert back.returncode == 0, back.stderr
    assert (armada.folder / "back" / "deep" / "größe 日本").read_bytes() == content
    assert (armada.folder / "back" / "things" / "deep" / "größe 日本").read_bytes() == content
    assert armada.run("exec", "workstation", "--", "rm", "-r", there).returncode == 0
