"""Checkpoints over real SSH: several streams, cut links, killed ssh processes, dead hosts, changed keys."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from armada.errors import ArmadaError, HostKeyChanged, HostUnreachable
from armada.foundation.progress import NullProgress, TransferProgress
from armada.paths import HomePaths
from armada.rpc.session import HostSession
from armada.store import checkpoints, run_sync, runs
from armada.store.database import Database
from armada.sync.context import SyncContext
from armada.sync.runs.report import SyncOutcome
from armada.sync.runs.sync_host import sync_host
from armada.sync.runs.sync_hosts import sync_hosts
from armada.sync.runs.sync_run import sync_run
from armada.sync.transfer.streams import Streams
from armada.transport.ssh.handshake import scan
from armada.transport.ssh.host_keys import pin
from armada.transport.ssh.resolve import resolve
from tests.chance import dice
from tests.fleet import machines
from tests.fleet.conftest import BadLink, Fleet
from tests.fleet.remote_run import Remote
from tests.waiting import eventually


@pytest.fixture
def remote(home: HomePaths, fleet: Fleet, there: str, ssh_config: Path) -> Iterator[Callable[..., Remote]]:
    made: list[Remote] = []

    def make(
        machine: str,
        port: int | None = None,
        *,
        name: str | None = None,
        patience_s: float = 600.0,
        transport: str = "fabric",
        **sync: Any,
    ) -> Remote:
        made.append(Remote(home, fleet, machine, there, port, name, patience_s=patience_s, transport=transport))
        made[-1].create(**sync)
        return made[-1]

    yield make
    for each in made:
        each.close()


class Watching(NullProgress):
    """A listener that calls something while bytes arrive."""

    def __init__(self, act: Callable[[TransferProgress], None]) -> None:
        self._act = act

    def transfer(self, name: str, what: str, seen: TransferProgress) -> None:
        self._act(seen)


@pytest.mark.takes_long("tens of megabytes over a link with a long round trip")
def test_a_large_checkpoint_comes_over_one_connection_on_a_short_link_and_over_several_on_a_long_one(
    remote: Callable[..., Remote], fleet: Fleet, bad_link: Callable[..., BadLink], monkeypatch: pytest.MonkeyPatch
) -> None:
    near = remote("workstation", transfer="stream")
    near.save(1, {"model": 30_000_000, "small": 10, "empty": 0})
    most = 0

    def count(_: TransferProgress) -> None:
        nonlocal most
        most = max(most, len(own_ssh()))

    with monkeypatch.context() as patch:
        # How far a host in this machine seems to be depends on what else it does; how far the other one is does not.
        patch.setattr(Streams, "round_trip_s", 0.001)
        (place,) = near.sync(progress=Watching(count)).published
    assert near.is_right(place)
    assert most == 1
    link = bad_link(fleet.host("a100-1"), "--rtt-ms", "60")
    far = remote("a100-1", link.port, transfer="auto")
    most = 0
    far.save(1, {"model": 20_000_000, "small": 10})
    (place,) = far.sync(progress=Watching(count)).published
    assert far.is_right(place)
    assert most == 0  # it came over the session's own connection
    for module in ("armada.rpc.session", "armada.sync.transfer.streams"):
        monkeypatch.setattr(f"{module}.DIRECT_BYTES", 9_000_000)  # so that that may not carry all of the next one
    far.save(2, {"model": 140_000_000, "small": 10})
    (place,) = far.sync(progress=Watching(count)).published
    assert far.is_right(place)
    assert most > 3
    assert far.leftovers() == near.leftovers() == []
    eventually(no_ssh, "the end of every ssh")


def own_ssh() -> list[int]:
    """The ids of this process's ssh processes that live; one that ended may wait to be reaped until the next one starts."""
    lists = (path.read_text().split() for path in Path("/proc/self/task").glob("*/children"))
    found = []
    for pid in (int(pid) for pids in lists for pid in pids):
        with contextlib.suppress(OSError):
            name, _, rest = Path(f"/proc/{pid}/stat").read_text().partition("(")[2].rpartition(")")
            if name == "ssh" and not rest.startswith(" Z"):
                found.append(pid)
    return found


def no_ssh() -> bool:
    """Tell whether no ssh process of ours is left; what is left is in the failure's words."""
    commands = [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in own_ssh()]
    print("ssh that lives:", commands)
    return not commands


@pytest.mark.fault(
    "link reset and ssh processes killed during a transfer",
    "goes on where it broke; every byte verified",
)
@pytest.mark.takes_long("a new connection after every cut")
def test_links_that_are_cut_and_ssh_processes_that_are_killed_delay_a_transfer_and_harm_nothing(
    remote: Callable[..., Remote], fleet: Fleet, bad_link: Callable[..., BadLink]
) -> None:
    link = bad_link(fleet.host("a100-1"), "--rtt-ms", "20", "--mbit", "400")
    run = remote("a100-1", link.port, transfer="stream")
    run.save(1, {"model": 40_000_000, **{f"shard-{number}": 3_000_000 for number in range(8)}})
    chance, left = dice(3), [12]

    def break_something(_: TransferProgress) -> None:
        if left[0] and chance.random() < 0.7:
            left[0] -= 1
            if chance.random() < 0.5:
                link.reset()
            elif victims := own_ssh():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(chance.choice(victims), signal.SIGKILL)

    (place,) = run.sync(progress=Watching(break_something)).published
    assert left[0] < 12
    assert run.is_right(place)
    assert run.leftovers() == []


@pytest.mark.fault(
    "link down for good during a transfer",
    "said; what arrived stays in staging",
)
def test_a_link_that_stays_down_is_said_and_what_came_is_kept(
    remote: Callable[..., Remote], fleet: Fleet, bad_link: Callable[..., BadLink]
) -> None:
    link = bad_link(fleet.host("a100-1"), "--rtt-ms", "2", "--mbit", "200")
    run = remote("a100-1", link.port, patience_s=1.0, transfer="stream")
    digest = run.save(1, {"model": 60_000_000})

    def cut(seen: TransferProgress) -> None:
        if seen.done_bytes > 20_000_000:
            link.process.terminate()

    with pytest.raises(HostUnreachable):
        run.sync(progress=Watching(cut))
    record = run_sync.find(run.database, run.run_id)
    assert record.failures == 1
    assert record.failing_since is not None
    blocks = (run.home.staging(run.run_id, digest).parent / f"{digest}.blocks").read_text().splitlines()
    assert len(blocks) >= 4
    again = bad_link(fleet.host("a100-1"))
    session = HostSession(run.host.model_copy(update={"ssh": f"root@127.0.0.1:{again.port}"}), run.home)
    first: list[int] = []
    with session:
        listener = Watching(lambda seen: first.append(seen.done_bytes))
        outcome = sync_run(SyncContext(run.database, session, run.home, run.run_id), progress=listener)
    assert run.is_right(outcome.published[0])
    assert first[0] >= len(blocks) * (4 << 20)  # it went on where it was
    assert run_sync.find(run.database, run.run_id).failures == 0


@pytest.mark.fault(
    "one of several hosts dead",
    "the others finish without it",
)
def test_a_dead_host_delays_no_other(remote: Callable[..., Remote], fleet: Fleet) -> None:
    alive = remote("workstation")
    alive.save(1, {"model": 1_000_000})
    with fleet.borrow("a100-2") as machine:
        dead = remote("a100-2")
        dead.save(1, {"model": 1_000_000})
        machines.kill(machine)
        chosen = [runs.find(alive.database, each.run_id) for each in (dead, alive)]
        hosts = {each.host.name: each.host for each in (dead, alive)}
        results = {
            r.host: r for r in sync_hosts(alive.home, hosts, chosen, progress=Watching(lambda _: None), patience_s=0)
        }
    assert isinstance(results["a100-2"].error, HostUnreachable)
    assert [len(outcome.published) for outcome in results["workstation"].outcomes] == [1]
    assert run_sync.find(alive.database, dead.run_id).failing_since is not None


@pytest.mark.fault(
    "host key changed",
    "nothing is fetched until `hosts trust`",
)
def test_a_changed_host_key_stops_a_transfer_and_is_called_that(remote: Callable[..., Remote], fleet: Fleet) -> None:
    with fleet.borrow("a100-2") as machine:
        run = remote("a100-2", transfer="rsync")  # a stream might need no connection beside the one that is open
        run.save(1, {"model": 1_000_000})
        _ = run.session.paths  # logged in under the old key; rsync's own connection sees the new one
        machines.rekey(machine)
        with pytest.raises(HostKeyChanged):
            run.sync()
        assert checkpoints.of_run(run.database, run.run_id)[0].home_path is None


@pytest.mark.fault(
    "rsync missing on the host",
    "checkpoints come all the same; where rsync is asked for, that is said",
)
def test_a_host_without_rsync_sends_checkpoints_all_the_same(
    remote: Callable[..., Remote], fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Streams, "round_trip_s", 0.001)  # so that rsync is tried
    with fleet.borrow("a100-2") as machine:
        run = remote("a100-2", transfer="rsync")
        run.save(1, {"model": 1_000_000})
        fleet.run(machine.name, "mv /usr/bin/rsync /usr/bin/rsync.away")
        try:
            (trouble,) = run.sync().troubles
            assert (trouble.error.message, trouble.error.exit_code) == ("no rsync on this host", 5)
            assert "sync.transfer: auto" in (trouble.error.hint or "")
            runs.set_spec(run.database, run.run_id, {**runs.spec(run.database, run.run_id), "sync": {}})
            run.session.without_rsync = None
            assert len(run.sync(insist=True).published) == 1
            assert run.session.without_rsync == "no rsync on this host"
        finally:
            fleet.run(machine.name, "mv /usr/bin/rsync.away /usr/bin/rsync")


@pytest.mark.fault(
    "host's disk full",
    "finished checkpoints come home",
)
def test_a_full_disk_on_the_host_does_not_keep_a_checkpoint_from_coming(
    remote: Callable[..., Remote], fleet: Fleet, there: str
) -> None:
    fleet.run("a100-1", f"mkdir -p {there} && mount -t tmpfs -o size=6m,mode=700 tmpfs {there}")
    run = remote("a100-1")
    run.save(1, {"model": 2_000_000})
    fleet.run("a100-1", f"head -c 9000000 /dev/zero > {there}/filler || true")
    outcome = run.sync()
    assert [place.name for place in outcome.published] == ["checkpoint-1"]
    assert [trouble.cause for trouble in outcome.troubles] == ["disk_host"]  # it cannot note that home has it
    fleet.run("a100-1", f"rm {there}/filler")
    assert run.sync().troubles == ()
    assert checkpoints.of_run(run.database, run.run_id)[0].acknowledged_at is not None


def test_runs_with_nothing_new_cost_one_question_together(
    remote: Callable[..., Remote], fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = remote("workstation")
    run.save(1, {"model": 1000})
    run.sync()
    asked: list[str] = []
    original = HostSession.call

    def counting(self: HostSession, request: Any, *arguments: Any, **options: Any) -> Any:
        asked.append(getattr(request, "method", request))
        return original(self, request, *arguments, **options)

    monkeypatch.setattr(HostSession, "call", counting)
    sync_host(run.context, [run.run_id])
    assert asked == ["sync.look"]


@pytest.mark.fault(
    "two syncs of one run at once",
    "everything home once",
)
def test_two_syncs_of_one_run_at_once_bring_everything_once(remote: Callable[..., Remote], fleet: Fleet) -> None:
    run = remote("workstation")
    run.save(1, {"model": 20_000_000})
    run.save(2, {"model": 20_000_000})
    outcomes: list[SyncOutcome] = []

    def work() -> None:
        with Database(run.home.store) as database, HostSession(run.host, run.home) as session:
            outcomes.append(sync_run(SyncContext(database, session, run.home, run.run_id)))

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(len(outcome.published) for outcome in outcomes) == [0, 2]
    assert all(run.is_right(place) for outcome in outcomes for place in outcome.published)


@pytest.mark.fault(
    "black hole during a transfer",
    "noticed, and the transfer goes on when the link is back",
)
@pytest.mark.takes_long("nothing tells of a black hole but that 15 s passed without an answer")
def test_a_link_that_swallows_everything_is_noticed_and_the_transfer_goes_on_when_it_is_back(
    remote: Callable[..., Remote],
    fleet: Fleet,
    bad_link: Callable[..., BadLink],
    record_property: Callable[[str, object], None],
) -> None:
    """No reset, no answer: ssh gives up after four unanswered questions, 20 s; nothing at home would ever have said so."""
    link = bad_link(fleet.host("a100-1"), "--rtt-ms", "2", "--mbit", "200")
    run = remote("a100-1", link.port, patience_s=0.0)
    digest = run.save(1, {"model": 40_000_000})
    swallowed_at: float | None = None

    def swallow(seen: TransferProgress) -> None:
        nonlocal swallowed_at
        if seen.done_bytes > 10_000_000 and swallowed_at is None:
            swallowed_at = time.monotonic()
            link.toggle()

    with pytest.raises(HostUnreachable):
        run.sync(progress=Watching(swallow))
    assert swallowed_at is not None
    record_property("seen", f"noticed after {time.monotonic() - swallowed_at:.0f} s")
    eventually(no_ssh, "the end of every ssh")
    assert run.home.staging(run.run_id, digest).is_dir()
    link.toggle()
    (place,) = run.sync().published
    assert run.is_right(place)
    assert run.leftovers() == []


@pytest.mark.fault(
    "500 ms round trips in pieces of 700 bytes",
    "the checkpoint comes home, verified",
)
@pytest.mark.takes_long("every round trip takes half a second")
def test_a_link_of_small_pieces_and_half_a_second_carries_a_checkpoint(
    remote: Callable[..., Remote], fleet: Fleet, bad_link: Callable[..., BadLink]
) -> None:
    link = bad_link(fleet.host("a100-1"), "--rtt-ms", "500", "--slice", "700")
    run = remote("a100-1", link.port)
    run.save(1, {"model": 3_000_000, "small": 10})
    (place,) = run.sync().published
    assert run.is_right(place)


@pytest.mark.fault(
    "a link that passes a checkpoint in slices of 1 %",
    "the checkpoint comes home, verified",
)
def test_a_link_of_slices_carries_a_checkpoint(
    remote: Callable[..., Remote], fleet: Fleet, bad_link: Callable[..., BadLink]
) -> None:
    link = bad_link(fleet.host("a100-1"), "--rtt-ms", "10", "--slice", "100000")
    run = remote("a100-1", link.port)
    run.save(1, {"model": 10_000_000, "small": 10})
    (place,) = run.sync().published
    assert run.is_right(place)


@pytest.mark.fault(
    "host reinstalled under the same name",
    "refused until its new key is trusted; then nothing at home is lost, and it is said that its root is another one",
)
def test_a_host_made_anew_under_its_name_loses_nothing_at_home(
    remote: Callable[..., Remote], fleet: Fleet, there: str
) -> None:
    with fleet.borrow("a100-2") as machine:
        run = remote("a100-2")
        run.save(1, {"model": 1000})
        run.sync()
        run.save(2, {"model": 1000})
        fleet.run(machine.name, f"rm -rf {there}")
        machines.reboot(machine)
        machines.rekey(machine)
        run.session.disconnect()
        with pytest.raises(HostKeyChanged):
            run.sync()
        assert run.is_right(run.home.checkpoints(run.run_id) / "checkpoint-1")
        pin(run.home, run.host.name, scan(resolve(run.host), run.home))
        with pytest.raises(ArmadaError, match="its root on the host is not the folder"):
            run.sync()
        assert run.is_right(run.home.checkpoints(run.run_id) / "checkpoint-1")
        assert not run_sync.find(run.database, run.run_id).final_done
        assert runs.find(run.database, run.run_id).reason == "root_away"
