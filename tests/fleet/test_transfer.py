"""rsync to and from real SSH servers."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from armada.errors import (
    ArmadaError,
    LinkLost,
    NotFound,
    ProvisionFailed,
)
from armada.foundation.progress import TransferProgress
from armada.paths import HomePaths
from armada.rpc.client import Agent
from armada.transport import connect
from tests.chance import dice
from tests.fleet.conftest import NAMES
from tests.waiting import eventually

LOOK = """
import hashlib, json, os, sys
os.chdir(sys.argv[1])
print(json.dumps([[name, hashlib.sha256(open(name, "rb").read()).hexdigest(), int(os.stat(name).st_mtime)]
                  for name in json.load(sys.stdin)]))
"""

PUSH = """
import sys
from pathlib import Path
from armada.config.hosts import load_hosts
from armada.paths import HomePaths
from armada.transport import connect

home = HomePaths.from_environment()
transport = connect(load_hosts(home)["via"], home)
transport.push(Path(sys.argv[1]), ["big"], sys.argv[2], lambda seen: print(seen.done_bytes, flush=True))
"""

KILLS = int(os.environ.get("ARMADA_FAULT_KILLS", "10"))

if TYPE_CHECKING:
    from tests.fleet.conftest import BadLink, Fleet, SshHost

    Known = Callable[..., SshHost]
    PutBadLink = Callable[..., BadLink]


@pytest.fixture(params=["fabric", "openssh"])
def transport_kind(request: pytest.FixtureRequest) -> str:
    """Every test here is about both."""
    return str(request.param)


def test_an_rsync_that_start_up_files_disturb_is_explained(
    known: Known, home: HomePaths, fleet: Fleet, source: Path
) -> None:
    with fleet.borrow("a100-2") as machine:
        fleet.run(machine.name, "echo 'echo Welcome' > /root/.bashrc")
        try:
            with closing(connect(known(machine.name), home)) as transport, pytest.raises(ProvisionFailed) as caught:
                transport.push(source, NAMES, "/tmp/noisy")
        finally:
            fleet.run(machine.name, "rm /root/.bashrc")
    assert "shell prints" in caught.value.message
    assert ".bashrc" in str(caught.value.hint)


@pytest.mark.parametrize("machine", ["workstation", "a100-1"])
def test_files_arrive_as_they_were(
    machine: str, known: Known, home: HomePaths, source: Path, fleet: Fleet, there: str
) -> None:
    seen: list[TransferProgress] = []
    there = f"{there} it's $(touch x) ü"
    with closing(connect(known(machine), home)) as transport:
        transport.push(source, NAMES, there, seen.append)
    said = fleet.run(machine, shlex.join(["python3", "-c", LOOK, there]), stdin=json.dumps(NAMES).encode())
    for name, digest, mtime in json.loads(said):
        assert digest == hashlib.sha256((source / name).read_bytes()).hexdigest()
        assert mtime == int((source / name).stat().st_mtime)
    modes = fleet.run(machine, f"cd {shlex.quote(there)} && stat -c %a . plain sub/deep sub/deep/x.sh")
    assert modes.split() == ["700", "600", "700", "700"]
    assert seen[-1].done_bytes == seen[-1].total_bytes == sum((source / name).stat().st_size for name in NAMES)


def test_names_that_mean_something_else_are_refused(known: Known, home: HomePaths, source: Path) -> None:
    with closing(connect(known("workstation"), home)) as transport:
        for name in ("a\nb", "a\x1bb", "../../etc/passwd", "/etc/passwd", "a/../b", "", "a\udcff"):
            with pytest.raises(ArmadaError, match="armada does not transfer it"):
                transport.push(source, [name], "/tmp/refused")
        for folder in ("relative", "~", "/tmp/a\nb", "/tmp/*"):
            with pytest.raises(ArmadaError):
                transport.push(source, ["plain"], folder)


def test_no_link_is_followed(known: Known, home: HomePaths, source: Path) -> None:
    (source / "link").symlink_to("/etc/passwd")
    (source / "folder").symlink_to("/etc")
    with closing(connect(known("workstation"), home)) as transport:
        for name in ("link", "folder/passwd"):
            with pytest.raises(NotFound, match="not a regular file"):
                transport.push(source, ["plain", name], "/tmp/not-pushed")


def own_children(name: str) -> list[int]:
    lists = (path.read_text().split() for path in Path("/proc/self/task").glob("*/children"))
    return [int(pid) for pids in lists for pid in pids if Path(f"/proc/{pid}/comm").read_text().strip() == name]


@pytest.mark.fault(
    "kill -9 of rsync, or of its ssh, during a push",
    "the same push completes it; every byte right, no temporary left",
)
@pytest.mark.timeout(900)
@pytest.mark.takes_long("a new push after every kill")
def test_a_push_killed_at_random_points_is_completed_by_the_next(
    known: Known,
    home: HomePaths,
    fleet: Fleet,
    tmp_path: Path,
    bad_link: PutBadLink,
    there: str,
    record_property: Callable[[str, object], None],
) -> None:
    link = bad_link(fleet.host("workstation"), "--mbit", "160")
    host = known("workstation", name="via", ssh=f"researcher@127.0.0.1:{link.port}")
    chance = dice(13)
    source = tmp_path / "source"
    source.mkdir()
    names = ["big", "small", "sub"]
    (source / "small").write_bytes(b"s" * 1000)
    (source / "sub").write_bytes(b"t" * 100_000)
    killed = 0
    with closing(connect(host, home)) as transport:
        while killed < KILLS:
            (source / "big").write_bytes(os.urandom(4_000_000))
            target = f"{there}-{killed}"
            for _ in range(3):
                after_bytes = chance.uniform(0, 4_000_000)

                def kill_something(seen: TransferProgress, after_bytes: float = after_bytes) -> None:
                    if seen.done_bytes > after_bytes and (victims := own_rsync()):
                        with contextlib.suppress(ProcessLookupError):
                            os.kill(chance.choice(victims), signal.SIGKILL)

                try:
                    transport.push(source, names, target, kill_something)
                except LinkLost:
                    killed += 1
            transport.push(source, names, target)
            said = fleet.run("workstation", f"cd {target} && sha256sum * && ls -A | wc -l && cd / && rm -r {target}")
            *sums, count = said.splitlines()
            assert {line.split()[1]: line.split()[0] for line in sums} == {
                name: hashlib.sha256((source / name).read_bytes()).hexdigest() for name in names
            }
            assert int(count) == len(names)
    record_property("times", killed)


@pytest.mark.fault(
    "kill -9 of armada during a push",
    "its rsync ends with it; the next push completes what it began",
)
def test_an_rsync_does_not_outlive_the_armada_that_started_it(
    known: Known,
    home: HomePaths,
    fleet: Fleet,
    tmp_path: Path,
    bad_link: PutBadLink,
    there: str,
) -> None:
    (tmp_path / "big").write_bytes(os.urandom(8_000_000))
    link = bad_link(fleet.host("workstation"), "--mbit", "8")
    host = known("workstation", name="via", ssh=f"researcher@127.0.0.1:{link.port}")
    entry = {"ssh": host.ssh, "identity": str(host.identity), "transport": host.transport}
    home.hosts_file.write_text(json.dumps({"hosts": {"via": entry}}))
    pusher = subprocess.Popen([sys.executable, "-c", PUSH, str(tmp_path), there], stdout=subprocess.PIPE, text=True)
    with pusher:
        assert pusher.stdout is not None
        assert pusher.stdout.readline()
        started = own_rsync(pusher.pid)
        assert len(started) == 2
        pusher.kill()
    eventually(lambda: not any(_name(pid) in ("rsync", "ssh") for pid in started), "rsync and its ssh to end")
    with closing(connect(known("workstation"), home)) as transport:
        transport.push(tmp_path, ["big"], there)
    (wanted,) = fleet.run("workstation", f"sha256sum < {there}/big").split()[:1]
    assert wanted == hashlib.sha256((tmp_path / "big").read_bytes()).hexdigest()


def own_rsync(of: int | None = None) -> list[int]:
    """rsync as we, or another process, started it, and its ssh."""
    found = [pid for pid in _children(of or os.getpid()) if _name(pid) == "rsync"]
    return found + [pid for parent in found for pid in _children(parent) if _name(pid) == "ssh"]


def _children(pid: int) -> list[int]:
    found: list[int] = []
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found += map(int, path.read_text().split())
    return found


def _name(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().strip()
    return ""


def test_a_push_whose_link_is_reset_is_lost_and_then_completed(
    known: Known, home: HomePaths, fleet: Fleet, tmp_path: Path, bad_link: PutBadLink, there: str
) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "big").write_bytes(bytes(range(256)) * 40_000)
    # Slow enough that we are told of a part before all of it is there, on however busy a machine.
    link = bad_link(fleet.host("workstation"), "--mbit", "16")
    host = known("workstation", name="via", ssh=f"researcher@127.0.0.1:{link.port}")
    with closing(connect(host, home)) as transport, pytest.raises(LinkLost):
        transport.push(
            source, ["big"], there, lambda progress: link.reset() if progress.done_bytes > 2_000_000 else None
        )
    with closing(connect(host, home)) as transport:
        transport.push(source, ["big"], there)
    assert int(fleet.run("workstation", f"stat -c %s {there}/big")) == 256 * 40_000


@pytest.mark.fault(
    "rsync too old, or missing, here or on the host",
    "a push says so and what to install; nothing hangs",
)
@pytest.mark.parametrize(
    ("where", "script", "says"),
    [
        ("here", "echo 'rsync  version 3.0.9  protocol version 30'", "armada cannot use this machine's rsync"),
        ("here", "exit 127", "armada cannot use this machine's rsync"),
        ("there", "echo 'rsync: -s: unknown option' >&2; exit 1", "does not support an option of this one"),
        ("there", None, "no rsync on this host"),
    ],
)
def test_an_rsync_that_cannot_do_it_is_said(
    known: Known,
    home: HomePaths,
    fleet: Fleet,
    source: Path,
    tmp_path: Path,
    there: str,
    monkeypatch: pytest.MonkeyPatch,
    where: str,
    script: str | None,
    says: str,
) -> None:
    with fleet.borrow("a100-2") as machine, closing(connect(known(machine.name), home)) as transport:
        if where == "here":
            program = tmp_path / "bin" / "rsync"
            program.parent.mkdir()
            program.write_text(f"#!/bin/sh\n{script}\n")
            program.chmod(0o755)
            monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
        else:
            fleet.run(machine.name, "mv /usr/bin/rsync /usr/bin/rsync.away")
            if script is not None:
                fleet.run(machine.name, "cat > /usr/bin/rsync", stdin=f"#!/bin/sh\n{script}\n".encode())
                fleet.run(machine.name, "chmod 755 /usr/bin/rsync")
        try:
            with pytest.raises(ArmadaError, match=says):
                transport.push(source, ["plain"], there)
        finally:
            if where == "there":
                fleet.run(machine.name, "mv /usr/bin/rsync.away /usr/bin/rsync")


def test_a_full_disk_is_called_that(known: Known, home: HomePaths, fleet: Fleet, tmp_path: Path, there: str) -> None:
    fleet.run(
        "workstation", f"mkdir {there} && mount -t tmpfs -o size=1m,mode=700,uid=$(id -u researcher) tmpfs {there}"
    )
    (tmp_path / "big").write_bytes(b"x" * 3_000_000)
    with (
        closing(connect(known("workstation"), home)) as transport,
        pytest.raises(ProvisionFailed, match="the disk may be full"),
    ):
        transport.push(tmp_path, ["big"], f"{there}/pushed")
    with closing(connect(known("workstation", root=f"{there}/root"), home)) as transport:
        fleet.run("workstation", f"head -c 3000000 /dev/zero > {there}/filler || true", user="researcher")
        with Agent.open(transport, home) as agent, pytest.raises(ProvisionFailed) as caught:
            agent.call("host.facts", {})
    assert "make room" in str(caught.value.hint)
