"""The fleet for tests: hosts start when the first test asks for them and go with the last test process.

Several pytest processes (xdist) share one fleet: each holds a shared lock while it lives, so that whoever gets the exclusive
one is the last and may turn off the lights; the kernel frees the locks of processes that are killed.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import pytest

from armada.paths import HomePaths
from armada.transport.ssh.handshake import scan
from armada.transport.ssh.host_keys import pin
from armada.transport.ssh.resolve import resolve
from armada.transport.ssh.shared_connection import end_connections
from tests.conftest import Armada
from tests.fleet import machines
from tests.fleet.machines import MACHINES, Machine


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.fleet)


class Fleet:
    """The hosts that this test process has asked for."""

    def __init__(self) -> None:
        self._up: set[str] = set()

    def host(self, name: str) -> Machine:
        """Return a host, started; without its batch system skip, or fail where CI has installed that."""
        if name not in self._up:
            if reason := _why_not_cluster(name) or machines.why_not_host(MACHINES[name]):
                if os.environ.get("ARMADA_REQUIRE_CLUSTERS"):
                    pytest.fail(f"{name} cannot run here: {reason}")
                pytest.skip(f"{name} cannot run here: {reason}")
            machines.start([MACHINES[name]])
            self._up.add(name)
        return MACHINES[name]

    @contextlib.contextmanager
    def borrow(self, name: str) -> Iterator[Machine]:
        """Have a host that no other test uses now, to reboot, freeze or rekey it; it is up again afterwards."""
        machine = self.host(name)
        machines.start([machine])
        yield machine
        machines.start([machine])

    def run(self, name: str, script: str, *, user: str | None = None, stdin: bytes = b"") -> str:
        """Run a shell script inside a host, as root or as `user`, not over SSH."""
        as_user = ["su", "-s", "/bin/sh", user, "-c", script] if user else ["sh", "-c", script]
        return machines.execute(self.host(name), as_user, stdin=stdin).decode()


def _why_not_cluster(name: str) -> str | None:
    """What `fleet probe` found, where whoever runs the tests asked it."""
    return os.environ.get("ARMADA_WITHOUT_CLUSTERS") if name.startswith(("slurm", "condor")) else None


@pytest.fixture(scope="session")
def fleet() -> Iterator[Fleet]:
    """Yield the fleet, or skip saying why it cannot run; where it is required (CI), that is a failure."""
    if reason := machines.why_not():
        if os.environ.get("CI") or os.environ.get("ARMADA_REQUIRE_FLEET"):
            pytest.fail(f"the fleet cannot run here: {reason}")
        pytest.skip(f"the fleet cannot run here: {reason}")
    with machines.used():
        yield Fleet()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HomePaths]:
    """A home of the test's own, which ARMADA_HOME names; no SSH agent and no SSH configuration of a person."""
    monkeypatch.setenv("ARMADA_HOME", str(tmp_path / "armada home"))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    paths = HomePaths.from_environment()
    paths.make()
    yield paths
    for name in {socket.name.partition("+")[0] for socket in paths.ssh.glob("*.ctl")}:
        end_connections(name, paths)


@pytest.fixture
def ssh_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An SSH configuration that knows the fleet's hosts by name; tests may add to it."""
    path = tmp_path / "ssh_config"
    path.write_text(machines.ssh_config())
    monkeypatch.setenv("ARMADA_SSH_CONFIG", str(path))
    return path


@dataclass(frozen=True)
class SshHost:
    """The part of a host's configuration that the transport reads."""

    name: str
    ssh: str
    identity: Path | None = machines.IDENTITY
    root: str | None = None
    transport: str = "fabric"
    reuse_only: bool = False
    local: bool = field(default=False)


@pytest.fixture
def transport_kind() -> str:
    """What `known` hosts are reached by; test files that are about both say `params=["fabric", "openssh"]`."""
    return "fabric"


@pytest.fixture
def known(fleet: Fleet, home: HomePaths, ssh_config: Path, transport_kind: str) -> Callable[..., SshHost]:
    """Return a function that makes a host's configuration with the key it shows now pinned."""

    def make(
        machine: str, *, name: str | None = None, ssh: str | None = None, root: str | None = None, identity: bool = True
    ) -> SshHost:
        up = fleet.host(machine)
        key = machines.IDENTITY if identity else None
        host = SshHost(name or machine, ssh or up.target, root=root, identity=key, transport=transport_kind)
        pin(home, host.name, scan(resolve(host), home))
        return host

    return make


NAMES = [
    "plain",
    "sub/deep/x.sh",
    'it\'s "q" $(touch x)',
    "#hash",
    ";semi",
    "ünï — 漢",
    "-dash",
    "a b",
    "empty",
    "*",
    "~",
]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A folder full of files with names that are trouble."""
    folder = tmp_path / "it's a source $(touch x)"
    for name in NAMES:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("" if name == "empty" else name * 1000)
    (folder / "sub/deep/x.sh").chmod(0o755)
    return folder


@pytest.fixture
def there() -> str:
    """A folder on a host that no other test knows."""
    return f"/tmp/test-{uuid.uuid4().hex}"


class BadLink(SimpleNamespace):
    """A running `wan` in front of a host."""

    process: subprocess.Popen[str]
    port: int

    def toggle(self) -> None:
        """Make it a black hole, or open it again."""
        self.process.send_signal(signal.SIGUSR1)

    def reset(self) -> None:
        self.process.send_signal(signal.SIGUSR2)


@pytest.fixture
def bad_link() -> Iterator[Callable[..., BadLink]]:
    """Return a function that puts a bad link in front of a host; options are those of `wan`."""
    running: list[subprocess.Popen[str]] = []

    def put(machine: Machine, *options: str) -> BadLink:
        command = [
            sys.executable,
            str(machines.HERE / "wan"),
            "127.0.0.1:0",
            f"{machine.address}:{machine.port}",
            *options,
        ]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        running.append(process)
        assert process.stdout is not None
        return BadLink(process=process, port=int(process.stdout.readline().split()[1]))

    yield put
    for process in running:
        process.terminate()
        process.wait()
        if process.stdout:
            process.stdout.close()


@pytest.fixture
def add(armada: Armada, fleet: Fleet) -> Iterator[Callable[..., None]]:
    """A function that adds a host of the fleet the way a user would."""

    added: list[str] = []

    def add_host(machine: str, *more: str, name: str | None = None, target: str | None = None, rc: int = 0) -> None:
        up = fleet.host(machine)
        added.append(name or machine)
        words = ["hosts", "add", name or machine, target or up.target, "--identity", str(machines.IDENTITY), "--yes"]
        done = armada.run(*words, *more)
        assert done.returncode == rc, done.stdout + done.stderr

    yield add_host
    if list((armada.folder / "home/state/ssh").glob("*.ctl")):  # a connection that would outlive the test
        for name in added:
            armada.run("hosts", "disconnect", name)
