"""Hosts that freeze, fill up or let nobody in, and links that are bad from the first byte of a launch to the last of a pull."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from armada.paths import HomePaths
from tests.chance import dice
from tests.conftest import Armada, eventually
from tests.daemon.conftest import SAVER, published
from tests.fleet import machines
from tests.fleet.conftest import BadLink, Fleet

LONG = "ARMADA_FAULT_KILLS" in os.environ
MAX_STARTUPS = 100
"""sshd's default is 10:30:100: it turns away at random from ten logins under way on, and everybody from a hundred on."""


def add(armada: Armada, name: str, target: str, *more: str) -> None:
    words = ["hosts", "add", name, target, "--identity", str(machines.IDENTITY), "--yes", *more]
    done = armada.run(*words)
    assert done.returncode == 0, done.stdout + done.stderr


def only_run(armada: Armada, *more: str) -> dict[str, Any]:
    (run,) = armada.json("ps", *more)
    return dict(run)


@pytest.mark.fault(
    "host frozen and thawed",
    "last known state with `unreachable since`; after the thaw the run goes on, and who follows it sees its end",
)
@pytest.mark.takes_long(
    "a frozen host keeps its TCP connections: it is silent for as long as a deadline before that is said"
)
def test_a_host_that_freezes_harms_no_run(armada: Armada, fleet: Fleet) -> None:
    with fleet.borrow("a100-2") as machine:
        add(armada, "a100-2", machine.target)
        waits = "echo ready; while [ ! -e go ]; do sleep 0.2; done; exit 3"
        follower = armada.start("launch", "--host", "a100-2", armada.command("sh", "-c", waits), "--follow", "--json")
        eventually(lambda: [run["state"] for run in armada.json("ps")] == ["running"])
        machines.send(machine, signal.SIGSTOP)
        try:
            for _ in range(3 if LONG else 1):  # each look gives up after half a minute
                assert only_run(armada)["state"] == "running"
                assert only_run(armada, "--cached")["unreachable_since"] is not None
        finally:
            machines.send(machine, signal.SIGCONT)
        eventually(lambda: only_run(armada)["unreachable_since"] is None)
        run = only_run(armada)
        assert (run["state"], run["attempt"]) == ("running", 1)
        fleet.run("a100-2", f"touch ~/.armada/runs/{run['run_id']}/work/go")
        out, err = follower.communicate(timeout=180)
        assert follower.returncode == 6, err
        assert (json.loads(out)["state"], json.loads(out)["exit_code"]) == ("failed", 3)


@contextlib.contextmanager
def crowd(machine: machines.Machine) -> Iterator[list[socket.socket]]:
    """Somebody who begins as many logins as sshd takes, and says nothing."""
    with contextlib.ExitStack() as held:
        connections: list[socket.socket] = []

        def full() -> bool:
            for _ in range(50):
                connection = held.enter_context(socket.create_connection((machine.address, machine.port), timeout=20))
                if connection.recv(4) == b"SSH-":
                    connections.append(connection)
            return len(connections) >= MAX_STARTUPS

        eventually(full, within_s=100)
        yield connections


@pytest.mark.fault(
    "MaxStartups exhausted by somebody else",
    "said in a sentence with exit 4 while it lasts, nothing recorded; a launch that waits gets in once there is room",
)
@pytest.mark.takes_long("sshd lets its crowd wait, and armada's pauses between tries grow")
def test_a_login_crowd_keeps_us_out_only_as_long_as_it_lasts(armada: Armada, fleet: Fleet) -> None:
    with fleet.borrow("a100-2") as machine:
        add(armada, "a100-2", machine.target)
        experiment = armada.command("true")
        with crowd(machine):
            refused = armada.run("launch", "--host", "a100-2", experiment)
            assert refused.returncode == 4, refused.stderr
            assert "too many logins at once" in refused.stderr
            assert armada.json("ps", "--cached") == []
        with crowd(machine) as connections:
            launch = armada.start("launch", "--host", "a100-2", experiment, "--follow")
            with contextlib.suppress(subprocess.TimeoutExpired):
                launch.wait(timeout=3)
            assert launch.poll() is None  # it waits
            for connection in connections:
                connection.close()
            _, err = launch.communicate(timeout=120)
        assert launch.returncode == 0, err


@pytest.fixture
def small(fleet: Fleet, there: str) -> Iterator[Callable[[str], str]]:
    """A function that makes a root of so many bytes on a100-1, or gives it another size."""
    made: list[str] = []

    def resize(size: str) -> str:
        how = "remount," if made else ""
        fleet.run("a100-1", f"mkdir -p {there} && mount -t tmpfs -o {how}size={size},mode=700 tmpfs {there}")
        made.append(there)
        return there

    yield resize
    fleet.run("a100-1", f"umount -l {there}")


@pytest.mark.fault(
    "host's disk full while files are sent there", "exit 5 and why, nothing started; the same launch works with room"
)
@pytest.mark.takes_long("an environment is built until its disk is full, and then whole")
def test_a_disk_that_fills_during_provision_is_said_and_nothing_starts(
    armada: Armada, fleet: Fleet, bad_link: Callable[..., BadLink], small: Callable[[str], str]
) -> None:
    root = small("1400m")  # less than a gigabyte is refused before anything is sent
    link = bad_link(fleet.host("a100-1"), "--mbit", "16")
    add(armada, "tight", f"root@127.0.0.1:{link.port}", "--root", root)
    (armada.folder / "project").mkdir()
    (armada.folder / "project" / "big.bin").write_bytes(os.urandom(20_000_000))
    experiment = armada.command("sh", "-c", "echo started >> starts", code="project")
    launch = armada.start("launch", "--host", "tight", experiment)
    eventually(lambda: "big.bin" in fleet.run("a100-1", f"find {root}/code -name '*big.bin*' 2>/dev/null || true"))
    small("9m")
    _, err = launch.communicate(timeout=120)
    assert launch.returncode == 5, err
    assert "No space left" in err or "disk" in err, err
    assert not fleet.run("a100-1", f"ls {root}/runs 2>/dev/null || true").strip()
    assert only_run(armada)["state"] == "failed"
    small("1400m")
    assert armada.run("launch", "--host", "tight", experiment, "--follow").returncode == 0


@pytest.mark.fault(
    "host's disk full while a run writes its log and a checkpoint",
    "the run's end is written once there is room; what was whole comes home, the half-written checkpoint never does",
)
def test_a_disk_that_fills_under_a_run_costs_no_exit_and_publishes_nothing_half(
    armada: Armada, fleet: Fleet, small: Callable[[str], str]
) -> None:
    root = small("1400m")
    add(armada, "tight", fleet.host("a100-1").target, "--root", root)
    # A checkpoint with room, a disk full of log, then a checkpoint without; the job fails on it, as a training would.
    waiting = "while not os.path.exists('go'): time.sleep(0.1)"
    filling = "try:\n    while True: os.write(1, b'x' * 65536)\nexcept OSError: pass"
    second = SAVER.strip().replace("range(1, count + 1)", "range(2, count + 2)")
    (armada.folder / "project").mkdir()
    (armada.folder / "project" / "job.py").write_text(f"{SAVER}\n{waiting}\n{filling}\n{second}\n")
    job = armada.command("python3", "job.py", "1", "3000000", "0", code="project")
    run_id = armada.json("launch", "--host", "tight", job)["run_id"]
    eventually(lambda: armada.json("ps")[0]["checkpoints_host"] == 1)
    small("12m")
    fleet.run("a100-1", f"touch {root}/runs/{run_id}/work/go")
    eventually(lambda: " 100% " in fleet.run("a100-1", f"df {root} | tail -1"))
    assert only_run(armada)["state"] in ("running", "failed")
    small("1400m")
    eventually(lambda: only_run(armada)["state"] == "failed", within_s=120)
    assert only_run(armada)["reason"] in ("exit_1", "disk_full")
    assert armada.run("pull", run_id).returncode == 0
    base = armada.folder / "home"
    assert published(HomePaths(config=base / "config", state=base / "state"), run_id) == [1]


def experience(armada: Armada, name: str) -> subprocess.Popen[str]:
    """Start all of it: files that travel, a launch, a follow, checkpoints that come home; the job ends with 3."""
    project = armada.folder / "project"
    if not project.exists():
        project.mkdir()
        (project / "part.bin").write_bytes(os.urandom(60_000))
    (project / "job.py").write_text("open('starts', 'a').write('start\\n')\n" + SAVER + "\nsys.exit(3)\n")
    (project / "token").write_text(uuid.uuid4().hex)  # so that the files travel each time
    experiment = armada.command("python3", "job.py", "2", "40000", "0.5", name=name, code="project")
    return armada.start("launch", "--host", "far", experiment, "--follow", "--json")


def came_through(armada: Armada, fleet: Fleet, launch: subprocess.Popen[str]) -> None:
    out, err = launch.communicate(timeout=500)
    assert launch.returncode == 6, err
    run = json.loads(out)
    assert (run["state"], run["exit_code"], run["attempt"]) == ("failed", 3, 1)
    assert fleet.run("a100-1", f"cat ~/.armada/runs/{run['run_id']}/work/starts") == "start\n"
    base = armada.folder / "home"
    assert published(HomePaths(config=base / "config", state=base / "state"), run["run_id"]) == [1, 2]


@pytest.mark.fault(
    "500 ms round trips, or pieces of one byte, from launch to pull",
    "one start, the right exit code, every checkpoint home",
)
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "options", [("--rtt-ms", "500"), ("--slice", "1", "--rtt-ms", "4")], ids=["500 ms", "one byte"]
)
@pytest.mark.takes_long("every round trip takes half a second")
def test_a_link_that_is_bad_all_along_carries_everything(
    armada: Armada, fleet: Fleet, bad_link: Callable[..., BadLink], options: tuple[str, ...]
) -> None:
    link = bad_link(fleet.host("a100-1"), *options)
    add(armada, "far", f"root@127.0.0.1:{link.port}")
    came_through(armada, fleet, experience(armada, "slow"))


@pytest.mark.fault(
    "resets and short black holes at random points from launch to pull",
    "exit 4 and nothing started, or one start, the right exit code, every checkpoint home",
)
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("what", ["reset", "black hole"])
@pytest.mark.takes_long("the link breaks at each step of a launch; a black hole is noticed by deadlines alone")
def test_a_link_that_breaks_at_any_step_is_survived(
    armada: Armada,
    fleet: Fleet,
    bad_link: Callable[..., BadLink],
    what: str,
    record_property: Callable[[str, object], None],
) -> None:
    chance = dice(21)
    link = bad_link(fleet.host("a100-1"), "--rtt-ms", "10")
    add(armada, "far", f"root@127.0.0.1:{link.port}")
    rounds = 12 if LONG else 2
    breaks = refused = 0
    for number in range(rounds):
        launch = experience(armada, f"broken-{number}")
        while launch.poll() is None and breaks < 6 * (number + 1):
            if is_over(launch, chance.uniform(0.2, 1.5)):
                break
            breaks += 1
            if what == "reset":
                link.reset()
            else:
                link.toggle()
                is_over(launch, chance.uniform(0.5, 3.0))
                link.toggle()
        if launch.wait(timeout=500) in (4, 5):  # before anything was handed over
            refused += 1
            launch.communicate()
            assert only_run_of(armada, f"broken-{number}") in (None, "failed")
        else:
            came_through(armada, fleet, launch)
    record_property("times", rounds)
    record_property("seen", f"{breaks} {what}s in {rounds} launches, {refused} refused")


def is_over(launch: subprocess.Popen[str], within_s: float) -> bool:
    with contextlib.suppress(subprocess.TimeoutExpired):
        launch.wait(timeout=within_s)
    return launch.poll() is not None


def only_run_of(armada: Armada, name: str) -> str | None:
    found = [run["state"] for run in armada.json("ps") if run["name"] == name]
    return str(found[0]) if found else None
