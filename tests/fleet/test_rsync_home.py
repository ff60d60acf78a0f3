"""Checkpoints by rsync over real SSH: chosen where the link is short, continued after cuts and kills, mixed with the stream."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from armada.errors import HostUnreachable
from armada.store import checkpoints, runs
from armada.sync.transfer.staging import incoming
from armada.sync.transfer.streams import Streams
from armada.transport.interface import TransferProgress
from tests.chance import dice
from tests.conftest import Armada
from tests.fleet import machines
from tests.fleet.conftest import BadLink, Fleet
from tests.fleet.remote_run import Remote
from tests.fleet.test_sync import Watching, own_ssh, remote
from tests.fleet.test_transfer import own_rsync
from tests.waiting import eventually

__all__ = ["remote"]

PULL = """
import sys
from pathlib import Path
from armada.config.hosts import load_hosts
from armada.paths import HomePaths
from armada.transport import Pull, connect

home = HomePaths.from_environment()
transport = connect(load_hosts(home)["via"], home)
wanted = Pull(sys.argv[1], ["big"], Path(sys.argv[2]), 12_000_000)
transport.pull(wanted, lambda seen: print(seen.done_bytes, flush=True))
"""


@pytest.mark.parametrize("transport", ["fabric", "openssh"])
def test_checkpoints_come_by_rsync_where_the_link_is_short(
    remote: Callable[..., Remote], fleet: Fleet, transport: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # How far a host in this machine seems to be depends on what else it does.
    monkeypatch.setattr(Streams, "round_trip_s", 0.001)
    run = remote("workstation", transport=transport, bwlimit="6M")
    names = ["it's $(touch x)", "-dash", "#hash", ";semi", "ünï — 漢", "*", "~", "a b"]
    run.save(1, {"model": 9_000_000, "empty": 0, **{name: 1000 + n for n, name in enumerate(names)}})
    by_rsync, most_streams = set[int](), 0

    def look(seen: TransferProgress) -> None:
        nonlocal most_streams
        if 0 < seen.done_bytes < (seen.total_bytes or 0):
            by_rsync.update(own_rsync())
            most_streams = max(most_streams, len(own_ssh()))

    (place,) = run.sync(listener=Watching(look)).published
    assert run.is_right(place)
    assert by_rsync
    if transport == "fabric":
        assert most_streams <= 1  # for the logs
    assert run.leftovers() == []


@pytest.mark.fault(
    "link reset, rsync and its ssh killed during a transfer",
    "goes on where it broke; every byte verified",
)
@pytest.mark.takes_long("a new connection after every cut")
def test_links_that_are_cut_and_rsyncs_that_are_killed_delay_a_transfer_and_harm_nothing(
    remote: Callable[..., Remote], fleet: Fleet, bad_link: Callable[..., BadLink]
) -> None:
    link = bad_link(fleet.host("a100-1"), "--rtt-ms", "4", "--mbit", "100")
    run = remote("a100-1", link.port, transfer="rsync")
    run.save(1, {"model": 12_000_000, **{f"shard-{number}": 500_000 for number in range(6)}})
    chance, left = dice(5), [5]

    def break_something(_: TransferProgress) -> None:
        victims = own_rsync()
        if left[0] and victims and chance.random() < 0.7:
            left[0] -= 1
            if chance.random() < 0.4:
                link.reset()
            else:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(chance.choice(victims), signal.SIGKILL)

    (place,) = run.sync(listener=Watching(break_something)).published
    assert left[0] < 5
    assert run.is_right(place)
    assert run.leftovers() == []
    assert not own_rsync()


@pytest.mark.fault(
    "link down for good during an rsync",
    "said; what arrived is kept, and the stream goes on with it",
)
def test_what_rsync_left_when_its_link_went_down_is_continued_by_the_stream(
    remote: Callable[..., Remote], fleet: Fleet, bad_link: Callable[..., BadLink]
) -> None:
    link = bad_link(fleet.host("a100-1"), "--rtt-ms", "2", "--mbit", "120")
    run = remote("a100-1", link.port, patience_s=1.0, transfer="rsync")
    digest = run.save(1, {"model": 40_000_000})

    def cut(seen: TransferProgress) -> None:
        if seen.done_bytes > 12_000_000:
            link.process.terminate()

    with pytest.raises(HostUnreachable):
        run.sync(listener=Watching(cut))
    came = (incoming(run.home.staging(run.run_id, digest)) / "model").stat().st_size
    assert came > 10_000_000
    again = bad_link(fleet.host("a100-1"))
    run.reach(again.port)
    runs.set_spec(run.database, run.run_id, {**runs.spec(run.database, run.run_id), "sync": {"transfer": "stream"}})
    first: list[int] = []
    (place,) = run.sync(listener=Watching(lambda seen: first.append(seen.done_bytes))).published
    assert run.is_right(place)
    assert first[0] >= came - (4 << 20)
    assert run.leftovers() == []


@pytest.mark.fault(
    "kill -9 of armada while rsync brings a checkpoint",
    "its rsync ends with it; the next sync completes what it began",
)
def test_an_rsync_that_brings_files_does_not_outlive_its_armada(
    remote: Callable[..., Remote], fleet: Fleet, bad_link: Callable[..., BadLink], tmp_path: Path
) -> None:
    link = bad_link(fleet.host("a100-1"), "--mbit", "8")
    run = remote("a100-1", transfer="rsync")
    digest = run.save(1, {"big": 12_000_000})
    via = remote("a100-1", link.port, name="via")
    entry = {"ssh": via.host.ssh, "identity": str(machines.IDENTITY)}
    run.home.hosts_file.write_text(json.dumps({"hosts": {"via": entry}}))
    place = incoming(run.home.staging(run.run_id, digest))
    place.mkdir(parents=True)
    command = [sys.executable, "-c", PULL, f"{run.folder}/outbox/{digest}", str(place)]
    puller = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    with puller:
        assert puller.stdout is not None
        while int(puller.stdout.readline()) == 0:
            pass
        started = [pid for pid in _tree(puller.pid) if pid != puller.pid]
        assert len(started) >= 3  # generator, receiver, ssh
        puller.kill()
    eventually(lambda: not any(Path(f"/proc/{pid}/cmdline").exists() and _lives(pid) for pid in started))
    assert 0 < (place / "big").stat().st_size < 9_000_000  # what writes would have gone on to the end of what travels
    (published,) = run.sync().published
    assert run.is_right(published)
    assert [c.step for c in checkpoints.of_run(run.database, run.run_id) if c.home_path is not None] == [1]


def _tree(pid: int) -> list[int]:
    found = [pid]
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in path.read_text().split():
            found += _tree(int(child))
    return found


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip() in ("rsync", "ssh")
    except OSError:
        return False


def test_hosts_check_says_what_carries_checkpoints_and_why(
    armada: Armada, fleet: Fleet, bad_link: Callable[..., BadLink]
) -> None:
    far = bad_link(fleet.host("a100-1"), "--rtt-ms", "60")
    up = fleet.host("a100-1")
    for name, target in (("near", up.target), ("far", f"root@127.0.0.1:{far.port}")):
        done = armada.run("hosts", "add", name, target, "--identity", str(machines.IDENTITY), "--yes")
        assert done.returncode == 0, done.stderr
    near, away = (host["transfer"] for host in armada.json("hosts", "check", "near", "far"))
    assert away["method"] == "stream"
    assert away["round_trip_s"] >= 0.06
    assert near["method"] == ("rsync" if near["round_trip_s"] < 0.0104 else "stream")
    assert "checkpoints come by the stream: a round trip takes" in armada.run("hosts", "check", "far").stdout
