"""Hosts are taken over from ssh_config. Their keys are shown by a real SSH server."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest

from armada.cli.shapes import SHAPES, schema_of
from armada.config.hosts import load_hosts
from armada.paths import HomePaths
from tests.commands.typed import typed
from tests.conftest import Armada
from tests.key_server import KeyServer, key_servers

if TYPE_CHECKING:
    from collections.abc import Iterator

CONFIG = """\
Include {folder}/more
Host *
  User me
  HostName 127.0.0.1
Host gpu-1
  Port {ports[0]}
Host gpu-2 *.lab
  Port {ports[1]}
Host twin
  Port {ports[1]}
Host gone
  Port 1
Host behind
  HostName 10.0.0.9
  ProxyJump gate
Host odd,name
"""


@pytest.fixture
def servers(armada: Armada) -> Iterator[list[KeyServer]]:
    """Two servers that an ssh_config names, which also names what cannot be added."""
    with key_servers("ab") as found:
        config = armada.folder / "ssh_config"
        config.write_text(CONFIG.format(folder=armada.folder, ports=[server.port for server in found]))
        (armada.folder / "more").write_text("Host proxied\n  ProxyCommand touch x %h\n")
        armada.env["ARMADA_SSH_CONFIG"] = str(config)
        yield found


def hosts(armada: Armada) -> dict[str, str | None]:
    home = armada.folder / "home"
    return {name: host.ssh for name, host in load_hosts(HomePaths(home / "config", home / "state")).items() if host.ssh}


def outcomes(listed: list[dict[str, Any]]) -> dict[str, str]:
    jsonschema.validate(listed, schema_of(SHAPES["hosts import"]))
    return {each["name"]: each["outcome"] for each in listed}


def test_a_list_says_what_each_name_stands_for_and_asks_no_host(armada: Armada, servers: list[KeyServer]) -> None:
    listed = armada.json("hosts", "import")
    assert outcomes(listed) == {
        "proxied": "refused",
        "gpu-1": "new",
        "gpu-2": "new",
        "twin": "new",
        "gone": "new",
        "behind": "new",
        "odd,name": "refused",
    }
    by_name = {each["name"]: each for each in listed}
    assert (by_name["gpu-1"]["user"], by_name["gpu-1"]["port"]) == ("me", servers[0].port)
    assert by_name["behind"]["through"] == ["me@127.0.0.1:22"]
    assert by_name["proxied"]["file"] == str(armada.folder / "more")
    said = armada.run("hosts", "import")
    assert said.returncode == 0
    assert "'proxied' is reached by a ProxyCommand, which armada does not run" in said.stdout
    assert "nothing was added; armada hosts import gpu-1 adds this one, --all adds 5 hosts" in said.stdout
    foreseen = armada.run("hosts", "import", "gpu-*", "--dry-run")
    assert f"me@127.0.0.1:{servers[1].port}" in foreseen.stdout
    assert "nothing was added; armada hosts import 'gpu-*' adds 2 hosts" in foreseen.stdout
    assert [server.asked for server in servers] == [0, 0]
    assert hosts(armada) == {}


def test_one_that_fails_does_not_stop_the_others(armada: Armada, servers: list[KeyServer]) -> None:
    done = armada.run("hosts", "import", "--all", "--yes", "--json")
    assert done.returncode == 4, done.stderr
    listed = json.loads(done.stdout)
    assert outcomes(listed) == {
        "proxied": "refused",
        "gpu-1": "added",
        "gpu-2": "added",
        "twin": "known",
        "gone": "failed",
        "behind": "failed",
        "odd,name": "refused",
    }
    assert {each["name"]: each["known_as"] for each in listed if each["known_as"]} == {"twin": "gpu-2"}
    assert hosts(armada) == {"gpu-1": "gpu-1", "gpu-2": "gpu-2"}, "they stay names of ssh_config"
    again = armada.json("hosts", "import", "gpu-*", "--yes")
    assert outcomes(again) == {"gpu-1": "known", "gpu-2": "known"}


def test_each_key_is_asked_about_once_and_a_no_leaves_the_others(armada: Armada, servers: list[KeyServer]) -> None:
    nobody = armada.run("hosts", "import", "gpu-*")
    assert (nobody.returncode, "comparing the keys needs a terminal" in nobody.stderr) == (2, True)
    code, out, _ = typed(armada, "n\ny", "hosts", "import", "gpu-*")
    assert code == 2
    assert out.count("Is this the right key?") == 2
    assert "failed: not pinned, nothing changed" in out
    assert hosts(armada) == {"gpu-2": "gpu-2"}
    pinned = (armada.folder / "home" / "state" / "ssh" / "known_hosts").read_text()
    assert [line.split()[0] for line in pinned.splitlines()] == ["armada-gpu-2"]


def test_expected_keys_are_those_of_any_of_them(armada: Armada, servers: list[KeyServer]) -> None:
    expected = [word for server in servers for word in ("--expect", server.fingerprint)]
    assert armada.run("hosts", "import", "gpu-*", *expected).returncode == 0
    assert list(hosts(armada)) == ["gpu-1", "gpu-2"]
    for name in hosts(armada):
        assert armada.run("hosts", "rm", name).returncode == 0
    one = armada.run("hosts", "import", "gpu-*", *expected[:2])
    assert (one.returncode, "gpu-2: it shows" in one.stdout) == (4, True)
    assert list(hosts(armada)) == ["gpu-1"]


def test_a_host_known_by_its_address_or_another_of_its_name_is_said(armada: Armada, servers: list[KeyServer]) -> None:
    config = armada.folder / "home" / "config"
    config.mkdir(parents=True)
    text = f"hosts: {{mine: {{ssh: me@127.0.0.1:{servers[0].port}}}, gpu-2: {{ssh: elsewhere}}}}\n"
    (config / "hosts.yaml").write_text(text)
    listed = armada.json("hosts", "import", "gpu-*", "--yes")
    assert outcomes(listed) == {"gpu-1": "known", "gpu-2": "refused"}
    assert [each["known_as"] for each in listed] == ["mine", None]
    assert "another host is called gpu-2, at elsewhere" in listed[1]["error"]
    assert (config / "hosts.yaml").read_text() == text


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["gpux-1"], 7, "did you mean gpu-1?"),
        (["gpu-1", "--all"], 2, "exclude each other"),
        (["--file", "none"], 2, "cannot read it"),
        (["--file", "apart"], 2, "ssh does not read apart"),
    ],
)
def test_bad_input_is_named(armada: Armada, servers: list[KeyServer], words: list[str], code: int, said: str) -> None:
    armada.write("apart", "Host other\n")
    done = armada.run("hosts", "import", *words)
    assert done.returncode == code
    assert said in done.stderr
    assert [server.asked for server in servers] == [0, 0]


def test_a_file_that_ssh_reads_too_may_be_named(armada: Armada, servers: list[KeyServer]) -> None:
    assert list(outcomes(armada.json("hosts", "import", "--file", "more"))) == ["proxied"]
