"""The generated configuration is read back by OpenSSH itself."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from armada.errors import ConfigError
from armada.paths import HomePaths
from armada.transport.ssh.config_file import render_ssh_config, shared_socket, write_ssh_config
from armada.transport.ssh.host_keys import HostKey, pin
from armada.transport.ssh.resolve import HostSpec

pytestmark = pytest.mark.skipif(shutil.which("ssh") is None, reason="OpenSSH's client is not installed")

HOPS = (
    HostSpec("box+hop1", "10.0.0.1", 2201, "ops"),
    HostSpec("box+hop2", "10.0.0.2", 2202, "carol"),
)


def ask(path: Path, alias: str) -> dict[str, str]:
    said = subprocess.run(["ssh", "-G", "-F", str(path), "--", alias], capture_output=True, text=True, check=True)
    return dict(line.split(" ", 1) for line in said.stdout.splitlines() if " " in line)


@pytest.mark.parametrize("folder", ["plain", "Application Support", "100%", "ünï"])
def test_openssh_reads_what_was_meant(tmp_path: Path, folder: str) -> None:
    home = HomePaths(config=tmp_path / folder, state=tmp_path / folder / "state")
    key = tmp_path / folder / "my key"
    key.parent.mkdir(parents=True)
    key.write_text("")
    spec = HostSpec("box", "10.0.0.3", 50022, "root", identity_files=(key, tmp_path / "absent"), identities_only=True)
    path = write_ssh_config(spec, home)
    assert path.stat().st_mode & 0o777 == 0o600
    answers = ask(path, "armada-box")
    wanted = {
        "hostname": "10.0.0.3", "port": "50022", "user": "root", "hostkeyalias": "armada-box",
        "stricthostkeychecking": "true", "batchmode": "yes", "identitiesonly": "yes", "forwardagent": "no",
        "serveraliveinterval": "5", "serveralivecountmax": "3", "connecttimeout": "10", "compression": "no",
        "globalknownhostsfile": "/dev/null", "permitlocalcommand": "no", "updatehostkeys": "false",
    }  # fmt: skip
    assert {name: answers[name] for name in wanted} == wanted
    assert answers["userknownhostsfile"] == str(home.known_hosts)
    assert answers["identityfile"].replace("%%", "%") == str(key)  # `ssh -G` shows this one as it is written
    assert answers["ciphers"].startswith("aes128-gcm@openssh.com,")


def test_hops_are_hosts_of_their_own_reached_through_each_other(tmp_path: Path) -> None:
    home = HomePaths(config=tmp_path, state=tmp_path)
    path = write_ssh_config(HostSpec("box", "10.0.0.3", 22, "root", hops=HOPS), home)
    assert ask(path, "armada-box")["proxyjump"] == "armada-box+hop1,armada-box+hop2"
    second = ask(path, "armada-box+hop2")
    assert (second["hostname"], second["port"], second["user"]) == ("10.0.0.2", "2202", "carol")
    assert second["hostkeyalias"] == "armada-box+hop2"
    assert second["stricthostkeychecking"] == "true"
    assert second.get("proxyjump", "none") == "none"


@pytest.mark.parametrize("reuse_only", [False, True])
def test_a_shared_connection_is_in_the_one_file_for_all(tmp_path: Path, reuse_only: bool) -> None:
    home = HomePaths(config=tmp_path, state=tmp_path)
    spec = HostSpec("box", "10.0.0.3", 22, "root", hops=HOPS, shared=True, reuse_only=reuse_only, gssapi=True)
    path = write_ssh_config(spec, home)
    socket = shared_socket(spec, home)
    master, user = ask(path, "armada-box+master"), ask(path, "armada-box")
    for answers in (master, user):
        assert (answers["hostname"], answers["hostkeyalias"]) == ("10.0.0.3", "armada-box")
        assert answers["stricthostkeychecking"] == "true"
        assert answers["batchmode"] == "yes"
        assert answers["gssapiauthentication"] == "yes"
        assert answers["preferredauthentications"] == "gssapi-with-mic,publickey"
        assert answers["controlpath"] == socket.name
    assert (master["controlmaster"], user["controlmaster"]) == ("true", "false")
    assert master["controlpersist"] == ("yes" if reuse_only else "600")
    hop = "ssh -F box.conf -E box.log -W '[%h]:%p' armada-box+hop"
    assert master["proxycommand"] == f"{hop}2"
    # Without the shared connection ssh makes one of its own; `false` is what keeps it from that.
    assert user["proxycommand"] == ("false" if reuse_only else f"{hop}2")
    assert ask(path, "armada-box+hop2")["proxycommand"] == f"{hop}1"
    assert "proxycommand" not in ask(path, "armada-box+hop1")
    assert "proxyjump" not in ask(path, "armada-box+hop1")


def test_a_person_is_asked_by_a_file_of_its_own(tmp_path: Path) -> None:
    home = HomePaths(config=tmp_path, state=tmp_path)
    spec = HostSpec("box", "10.0.0.3", 22, "root", hops=HOPS[:1], shared=True, reuse_only=True)
    path = write_ssh_config(spec, home, asking=True)
    assert path != write_ssh_config(spec, home)
    for alias in ("armada-box+master", "armada-box+hop1"):
        answers = ask(path, alias)
        assert answers["batchmode"] == "no"
        assert answers["preferredauthentications"] == "publickey,keyboard-interactive,password"
        assert answers["stricthostkeychecking"] == "true"
    assert ask(path, "armada-box+master")["controlpath"] == shared_socket(spec, home).name
    assert "-F box+asking.conf" in ask(path, "armada-box+master")["proxycommand"]


def test_the_socket_is_another_one_after_settings_or_keys_changed(tmp_path: Path) -> None:
    home = HomePaths(config=tmp_path, state=tmp_path)
    spec = HostSpec("box", "10.0.0.3", 22, "root", shared=True)
    sockets = {shared_socket(spec, home), shared_socket(replace(spec, port=23), home)}
    pin(home, "box", [HostKey("armada-box", "ssh-ed25519", "AAAA")])
    sockets |= {shared_socket(spec, home), shared_socket(replace(spec, user="me"), home)}
    pin(home, "other", [HostKey("armada-other", "ssh-ed25519", "BBBB")])
    sockets.add(shared_socket(spec, home))  # another host's key changes nothing
    assert len(sockets) == 4
    # Its name and the 17 characters that ssh adds while it makes it fit into 104 bytes; the folder is never part of it.
    longest = shared_socket(replace(spec, name="n" * 63), home)
    assert len(longest.name) + 17 < 104


@pytest.mark.parametrize("name", ['a"b', "a${HOME}", "a\nb"])
def test_a_path_that_openssh_would_expand_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError):
        render_ssh_config(HostSpec("box", "h", 22, "u"), tmp_path / name)
