"""The daemon as a user runs it: a real process, real runs on this machine, killed at whatever instruction."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from armada.daemon import instance, status
from armada.paths import HomePaths
from armada.store import runs
from armada.store.database import Database
from armada.transport.ssh.host_keys import HostKey, pin
from tests import moments
from tests.chance import dice
from tests.conftest import Armada, eventually
from tests.daemon.conftest import all_home, condition, published, saver

KILLS = moments.times(4)


def test_a_daemon_watches_a_run_and_brings_all_of_it_home(armada: Armada, home: HomePaths) -> None:
    assert armada.run("daemon", "start").returncode == 0
    run_id = armada.json("launch", "--host", "local", saver(armada, count=4))["run_id"]
    all_home(armada, home, run_id)
    assert published(home, run_id) == [1, 2, 3, 4]
    with Database(home.store) as database:
        run = runs.find(database, run_id)
    assert run.state == "succeeded"
    assert condition(armada)["condition"] == "fresh"
    assert "everything of" in armada.run("daemon", "logs").stdout
    assert armada.run("daemon", "stop").returncode == 0
    assert not instance.is_held(home)
    said = armada.run("daemon", "status")
    assert (said.returncode, said.stdout.partition(":")[0]) == (7, "not running")
    assert said.stdout.splitlines()[0].endswith("ago: a stop was requested")


@pytest.mark.fault(
    "kill -9 of the daemon",
    "the next one goes on; all home, staging empty",
)
@pytest.mark.timeout(900)
@pytest.mark.takes_long("a daemon is started anew for every kill")
def test_a_daemon_killed_at_random_instants_loses_nothing(
    armada: Armada, home: HomePaths, record_property: Callable[[str, object], None]
) -> None:
    record_property("times", KILLS)
    saves = saver(armada, count=KILLS + 2, size=300_000, pause_s=0.0, when_told=True)
    run_id = armada.json("launch", "--host", "local", saves)["run_id"]
    chance = dice(11)
    steps: list[moments.Moment] = [
        None,
        lambda: instance.is_held(home),
        lambda: any(home.checkpoints(run_id).glob(".staging/*")) or len(published(home, run_id)) > before,
        lambda: len(published(home, run_id)) > before,
    ]
    for turn in range(KILLS):
        before = len(published(home, run_id))
        (armada.local_runs / run_id / "work" / f"save-{turn + 1}").touch()
        daemon = armada.start("daemon", "run", process_group=0)
        with daemon:
            assert moments.end_after(daemon, steps[turn % len(steps)], daemon.kill, chance)
            daemon.communicate()
        assert not instance.is_held(home)
        assert published(home, run_id) == sorted(set(published(home, run_id)))  # whole, and each once
        with Database(home.store) as database:
            assert database.connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
    last = armada.start("daemon", "run")
    for step in (KILLS + 1, KILLS + 2):
        (armada.local_runs / run_id / "work" / f"save-{step}").touch()
    all_home(armada, home, run_id)
    last.terminate()
    last.communicate()
    assert last.returncode == 0
    with Database(home.store) as database:
        rows = database.connection.execute("SELECT step FROM checkpoints WHERE home_path IS NOT NULL").fetchall()
    on_host = {json.loads(path.read_text())["step"] for path in armada.local_runs.glob("*/outbox/*/MANIFEST.json")}
    assert sorted(row["step"] for row in rows) == published(home, run_id)
    assert on_host <= set(published(home, run_id))
    assert KILLS + 2 in published(home, run_id)
    staging = home.checkpoints(run_id) / ".staging"
    assert not staging.exists() or not any(staging.iterdir())


@pytest.mark.fault(
    "two daemons",
    "the second says who is the first",
)
def test_the_second_daemon_says_who_is_the_first(armada: Armada, home: HomePaths) -> None:
    armada.run("daemon", "start")
    first = condition(armada)["pid"]
    second = armada.run("daemon", "run")
    assert second.returncode == 8
    assert f"process {first}" in second.stderr
    again = armada.run("daemon", "start")
    assert again.returncode == 0
    assert f"already running (process {first})" in again.stdout


def test_many_starts_at_once_give_one_daemon(armada: Armada, home: HomePaths) -> None:
    starts = [armada.start("daemon", "start") for _ in range(4)]
    for each in starts:
        out, err = each.communicate()
        assert each.returncode == 0, out + err
    log = armada.run("daemon", "logs", "--tail", "1000").stdout
    assert log.count(" watches (process") == 1


def test_status_after_a_violent_death_says_dead(armada: Armada, home: HomePaths) -> None:
    assert armada.run("daemon", "status").returncode == 7
    armada.run("daemon", "start")
    alive = armada.run("daemon", "status")
    assert alive.returncode == 0
    os.kill(condition(armada)["pid"], signal.SIGKILL)
    eventually(lambda: not instance.is_held(home))
    dead = armada.run("daemon", "status")
    assert dead.returncode == 7
    assert dead.stdout.startswith("dead: process")
    assert armada.run("daemon", "stop").returncode == 7


def test_a_daemon_that_lives_but_does_nothing_is_stale(armada: Armada, home: HomePaths) -> None:
    armada.run("daemon", "start")
    assert status.judge(home).condition == "fresh"

    def later() -> float:
        return time.monotonic() + 60

    assert status.judge(home, monotonic=later).condition == "stale"
    assert status.seen_hosts(home, monotonic=later) == frozenset()


class BlackHole:
    """A port that takes connections and never says a word."""

    def __init__(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self.taken: list[socket.socket] = []
        threading.Thread(target=self._take, daemon=True).start()

    def _take(self) -> None:
        while True:
            try:
                self.taken.append(self._listening.accept()[0])
            except OSError:
                return

    def close(self) -> None:
        self._listening.close()
        for connection in self.taken:
            connection.close()


@pytest.fixture
def black_hole() -> Iterator[BlackHole]:
    hole = BlackHole()
    yield hole
    hole.close()


@pytest.mark.fault(
    "a silent host under the daemon",
    "no other host waits for it",
)
@pytest.mark.takes_long("a look at a host that never answers must have ended: 15 s until it is given up")
def test_a_dead_host_does_not_delay_another(armada: Armada, home: HomePaths, black_hole: BlackHole) -> None:
    """By the order of events: the other host's run is home before the first look at the dead one has ended."""
    dead = {"ssh": f"root@127.0.0.1:{black_hole.port}"}
    home.hosts_file.write_text(json.dumps({"hosts": {"dead": dead, "also-dead": dead}}))
    for name in ("dead", "also-dead"):
        pin(home, name, [HostKey(f"armada-{name}", "ssh-ed25519", "AAAAC3NzaC1lZDI1NTE5AAAAI" + "A" * 43)])
    run_id = armada.json("launch", "--host", "local", saver(armada, count=2))["run_id"]
    armada.run("daemon", "start")
    all_home(armada, home, run_id)
    assert len(black_hole.taken) >= 2
    eventually(lambda: "dead: does not answer" in armada.run("daemon", "logs").stdout)
    log = armada.run("daemon", "logs", "--tail", "1000").stdout
    assert log.index(f"everything of {run_id} is home") < log.index("dead: does not answer")
    seen = condition(armada)
    assert seen["condition"] == "fresh"
    assert {seen["hosts"][name]["state"] for name in ("dead", "also-dead")} <= {"new", "unreachable"}
    assert seen["hosts"]["local"]["state"] == "ok"


def test_a_host_that_comes_back_is_seen_again(armada: Armada, home: HomePaths) -> None:
    root = armada.folder / "other"
    root.write_text("in the way")
    home.hosts_file.write_text(json.dumps({"hosts": {"other": {"local": True, "root": str(root)}}}))
    armada.run("daemon", "start")
    eventually(lambda: condition(armada)["hosts"].get("other", {}).get("state") == "unreachable")
    root.unlink()
    eventually(lambda: condition(armada)["hosts"]["other"]["state"] == "ok")
    (listed,) = [host for host in armada.json("hosts", "ls") if host["name"] == "other"]
    assert listed["unreachable_since"] is None
    home.hosts_file.write_text("{}")
    eventually(lambda: "other" not in condition(armada)["hosts"])


@pytest.mark.takes_long("a launch, a whole sync, a wipe and a second launch, each seen by the daemon at its own pace")
def test_a_host_that_was_wiped_is_left_alone_until_the_next_launch(armada: Armada, home: HomePaths) -> None:
    root = armada.folder / "other"
    home.hosts_file.write_text(json.dumps({"hosts": {"other": {"local": True, "root": str(root)}}}))
    armada.run("daemon", "start")
    run_id = armada.json("launch", "--host", "other", saver(armada, count=1))["run_id"]
    all_home(armada, home, run_id)
    released = armada.run("hosts", "release", "other", "--wipe", "--yes")
    assert released.returncode == 0, released.stdout + released.stderr
    eventually(lambda: "other" not in condition(armada)["hosts"])
    assert not (root / "agent").exists()
    armada.json("launch", "--host", "other", armada.command("true"))
    eventually(lambda: condition(armada)["hosts"].get("other", {}).get("state") == "ok")


def test_launch_starts_a_daemon_that_carries_no_secrets(armada: Armada, home: HomePaths) -> None:
    del armada.env["ARMADA_NO_DAEMON"]
    armada.env["WANDB_API_KEY"] = "canary-91c4"
    quiet = armada.json("launch", "--host", "local", saver(armada, count=1), "--no-daemon")["run_id"]
    assert not instance.is_held(home)
    run_id = armada.json("launch", "--host", "local", saver(armada, count=2))["run_id"]
    daemon = eventually(lambda: instance.holder(home))
    assert daemon is not None
    environ = Path(f"/proc/{daemon.pid}/environ").read_bytes()
    assert b"canary" not in environ
    assert b"ARMADA_HOME=" in environ
    all_home(armada, home, run_id)
    all_home(armada, home, quiet)
    assert (published(home, quiet), published(home, run_id)) == ([1], [1, 2])
    assert condition(armada)["auto"] is True


def test_a_project_of_its_own_hosts_is_watched_from_anywhere(armada: Armada, home: HomePaths) -> None:
    hosts = {"hosts": {"mine": {"local": True, "root": str(armada.folder / "mine")}}}
    (armada.folder / "armada.yaml").write_text(json.dumps(hosts))
    run_id = armada.json("launch", "--host", "mine", saver(armada, count=1))["run_id"]
    armada.run("daemon", "start")
    all_home(armada, home, run_id)
    assert published(home, run_id) == [1]


def test_ps_takes_a_fresh_daemon_at_its_word(armada: Armada, home: HomePaths) -> None:
    armada.run("daemon", "start")
    run_id = armada.json("launch", "--host", "local", armada.command("sleep", "1000"))["run_id"]
    eventually(lambda: status.seen_hosts(home))
    eventually(lambda: armada.json("ps")[0]["state"] == "running")
    armada.run("stop", run_id, "--grace", "0")
    assert armada.json("ps")[0]["state"] == "cancelled"


def test_systemd_hears_ready_alive_and_stopping(armada: Armada, home: HomePaths, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ear:
        ear.bind(str(tmp_path / "notify"))
        ear.settimeout(180)
        armada.env["NOTIFY_SOCKET"] = str(tmp_path / "notify")
        daemon = armada.start("daemon", "run")
        assert ear.recv(4096).startswith(b"READY=1")
        assert ear.recv(4096) == b"WATCHDOG=1"
        daemon.send_signal(signal.SIGTERM)
        while (word := ear.recv(4096)) == b"WATCHDOG=1":
            continue
        assert word == b"STOPPING=1"
        assert daemon.wait() == 0
        daemon.communicate()


def test_the_log_is_for_its_owner_alone(armada: Armada, home: HomePaths) -> None:
    armada.run("daemon", "start")
    modes = {path.name: path.stat().st_mode & 0o077 for path in home.daemon.iterdir()}
    assert set(modes.values()) == {0}


def test_a_daemon_whose_store_is_damaged_under_it_says_so_and_ends(armada: Armada, home: HomePaths) -> None:
    with Database(home.store) as database:
        daemon = armada.start("daemon", "run")
        try:
            eventually(lambda: instance.holder(home))
            database.connection.execute("ALTER TABLE hosts RENAME TO gone")
            _, said = daemon.communicate()
        finally:
            daemon.kill()
    assert daemon.returncode == 2
    assert "not a usable store" in said
    assert "armada recover" in said
    assert "bug in armada" not in said
    assert armada.run("recover").returncode == 0
    assert armada.run("store", "check").returncode == 0
