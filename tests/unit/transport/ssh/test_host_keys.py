from __future__ import annotations

import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from armada.paths import HomePaths
from armada.transport.ssh.host_keys import HostKey, pin, pinned_keys, unpin


@pytest.fixture
def home(tmp_path: Path) -> HomePaths:
    return HomePaths(config=tmp_path / "config", state=tmp_path / "state")


def made_key(folder: Path, alias: str) -> HostKey:
    path = folder / f"key of {alias}"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True)
    algorithm, blob, *_ = path.with_name(f"{path.name}.pub").read_text().split()
    return HostKey(alias, algorithm, blob)


@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="OpenSSH is not installed")
def test_fingerprints_are_openssh_s(tmp_path: Path, home: HomePaths) -> None:
    key = made_key(tmp_path, "armada-box")
    pin(home, "box", [key])
    said = subprocess.run(["ssh-keygen", "-lf", str(home.known_hosts)], capture_output=True, text=True, check=True)
    assert said.stdout.split()[1] == key.fingerprint


def key(alias: str, text: str = "a") -> HostKey:
    return HostKey(alias, "ssh-ed25519", (text * 4).ljust(8, "A"))


def test_pinning_replaces_the_keys_of_a_host_and_its_hops_alone(home: HomePaths) -> None:
    pin(home, "a", [key("armada-a"), key("armada-a+hop1")])
    pin(home, "ab", [key("armada-ab")])
    pin(home, "a-hop1", [key("armada-a-hop1")])
    pin(home, "a", [key("armada-a", "b")])
    assert pinned_keys(home) == {
        "armada-ab": [key("armada-ab")],
        "armada-a-hop1": [key("armada-a-hop1")],
        "armada-a": [key("armada-a", "b")],
    }
    unpin(home, "a")
    assert set(pinned_keys(home)) == {"armada-ab", "armada-a-hop1"}
    assert home.known_hosts.stat().st_mode & 0o777 == 0o600


def test_pins_made_at_once_are_all_kept(home: HomePaths) -> None:
    names = [f"host{n}" for n in range(40)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda name: pin(home, name, [key(f"armada-{name}")]), names))
    assert set(pinned_keys(home)) == {f"armada-{name}" for name in names}
    assert [path.name for path in home.ssh.glob(".*")] == []


def test_lines_that_are_no_keys_are_passed_over(home: HomePaths) -> None:
    home.ssh.mkdir(parents=True)
    home.known_hosts.write_text("# a comment\n\n@revoked x y zzzz\n|1|a|b ssh-rsa AAAA\narmada-a ssh-ed25519 *\nx\n")
    assert pinned_keys(home) == {}
