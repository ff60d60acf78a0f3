"""What the daemon decides, with the clock in the test's hand."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import jsonschema
import pytest

from armada.cli import main
from armada.cli.shapes import SHAPES, schema_of
from armada.config.hosts import Host
from armada.daemon import status, watcher
from armada.daemon.host_status import HostStatusRegistry
from armada.daemon.hosts import KnownHosts
from armada.daemon.instance import only_instance
from armada.daemon.scheduler import MOST_AT_ONCE, SyncScheduler
from armada.daemon.service import IDLE_S, Clock, Daemon, serve
from armada.errors import ArmadaError, SessionClosed
from armada.paths import HomePaths
from armada.protocol.host import Load
from armada.store import hosts, notifications, operations, run_sync, runs, telemetry
from armada.store.database import MIGRATIONS, Database
from armada.store.queries.tariffs import gpu_counts
from armada.store.running_operations import WIPING, operation
from armada.sync.context import HostContext
from armada.sync.runs.report import SyncOutcome
from armada.sync.schedule.due import Due
from armada.verdicts.states import Verdict
from tests.conftest import eventually


class Hand:
    """A clock that goes when told."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0
        self.monotonic = 100.0

    def go(self, seconds: float) -> None:
        self.now += seconds
        self.monotonic += seconds

    def sleep(self, seconds: float) -> None:
        """The machine is suspended: only the wall clock goes on."""
        self.now += seconds

    @property
    def clock(self) -> Clock:
        return Clock(lambda: self.now, lambda: self.monotonic)


@pytest.fixture
def home(tmp_path: Path) -> HomePaths:
    paths = HomePaths(config=tmp_path / "config", state=tmp_path / "state")
    paths.make()
    paths.daemon.mkdir()
    return paths


@pytest.fixture
def database(home: HomePaths) -> Database:
    return Database(home.store)


@pytest.fixture
def begin(home: HomePaths) -> Iterator[Callable[..., Daemon]]:
    """Make daemons that end with the test."""
    made: list[Daemon] = []

    def make(clock: Clock, *, auto: bool = False) -> Daemon:
        made.append(Daemon(home, auto=auto, clock=clock))
        return made[-1]

    yield make
    for daemon in made:
        daemon.close()


def add(database: Database, run_id: str = "x-aaaaaa", state: str = "running", host: str = "local") -> None:
    runs.insert(database, run_id=run_id, name="x", host=host, task="command", experiment=None, spec={})
    runs.record(
        database, run_id, Verdict(state, attempt=1, seq=1), ended_at=1_800_000_000.0, observed_at=1_800_000_000.0
    )


def test_a_daemon_started_by_itself_ends_when_nothing_is_left(
    home: HomePaths, database: Database, begin: Callable[..., Daemon]
) -> None:
    hand = Hand()
    daemon = begin(hand.clock, auto=True)
    assert daemon.tick(database)
    hand.go(IDLE_S - 1)
    assert daemon.tick(database)
    hand.go(2)
    assert not daemon.tick(database)


def test_one_started_by_a_person_stays(home: HomePaths, database: Database, begin: Callable[..., Daemon]) -> None:
    hand = Hand()
    daemon = begin(hand.clock)
    daemon.tick(database)
    hand.go(10 * IDLE_S)
    assert daemon.tick(database)


def test_a_run_that_lives_or_is_not_home_keeps_it_and_counting_begins_anew(
    home: HomePaths, database: Database, begin: Callable[..., Daemon]
) -> None:
    hand = Hand()
    daemon = begin(hand.clock, auto=True)
    daemon.tick(database)
    hand.go(IDLE_S - 1)
    add(database, state="running", host="nowhere-yet")
    home.hosts_file.write_text("hosts: {nowhere-yet: {local: true, root: /proc/cannot/be/made}}")
    assert daemon.tick(database)
    hand.go(2 * IDLE_S)
    assert daemon.tick(database)
    runs.record(database, "x-aaaaaa", Verdict("succeeded", attempt=1, seq=2), ended_at=hand.now)
    hand.go(2 * IDLE_S)
    assert daemon.tick(database)
    run_sync.succeeded(database, "x-aaaaaa", began=hand.now, next_due_at=hand.now, final_of=1)
    hand.go(10)
    assert daemon.tick(database)
    hand.go(IDLE_S + 1)
    assert not daemon.tick(database)


@pytest.mark.parametrize("left", ["on a host nobody knows", "ended and never found for weeks"])
def test_what_nobody_can_bring_home_any_more_keeps_no_daemon(
    home: HomePaths, database: Database, begin: Callable[..., Daemon], left: str
) -> None:
    hand = Hand()
    if left == "on a host nobody knows":
        add(database, host="forgotten")
    else:
        home.hosts_file.write_text("hosts: {gone: {local: true, root: /proc/cannot/be/made}}")
        add(database, state="failed", host="gone")
        hand.go(30 * 86_400)
    daemon = begin(hand.clock, auto=True)
    daemon.tick(database)
    hand.go(IDLE_S + 1)
    assert not daemon.tick(database)


def test_a_notification_on_its_way_keeps_it(home: HomePaths, database: Database, begin: Callable[..., Daemon]) -> None:
    hand = Hand()
    home.notifications_file.write_text("desktop: true")
    notifications.post(database, key="k@desktop", kind="run_failed", title="t", body="b", now=hand.now)
    daemon = begin(hand.clock, auto=True)
    daemon.tick(database)
    hand.go(IDLE_S + 1)
    assert daemon.tick(database)


def test_a_sleep_is_noticed_by_either_clock(
    home: HomePaths, database: Database, begin: Callable[..., Daemon], caplog: pytest.LogCaptureFixture
) -> None:
    hand = Hand()
    daemon = begin(hand.clock)
    with caplog.at_level(logging.INFO, "armada"):
        daemon.tick(database)
        hand.go(1)
        daemon.tick(database)
        assert "slept" not in caplog.text
        hand.sleep(86_400)
        daemon.tick(database)
    assert "the machine slept for 1 d" in caplog.text


def test_a_clock_set_back_does_not_end_it(home: HomePaths, database: Database, begin: Callable[..., Daemon]) -> None:
    hand = Hand()
    daemon = begin(hand.clock, auto=True)
    daemon.tick(database)
    hand.sleep(-86_400)
    assert daemon.tick(database)
    hand.go(IDLE_S - 1)
    assert daemon.tick(database)


def test_a_broken_hosts_file_leaves_the_hosts_that_were_known(
    home: HomePaths, database: Database, begin: Callable[..., Daemon]
) -> None:
    hand = Hand()
    daemon = begin(hand.clock)
    daemon.tick(database)
    home.hosts_file.write_text("hosts: [broken")
    assert daemon.tick(database)
    assert "local" in (home.daemon / "status.json").read_text()


def test_the_status_names_a_broken_hosts_file_its_line_and_what_holds_meanwhile(
    home: HomePaths,
    database: Database,
    begin: Callable[..., Daemon],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(HomePaths, "from_environment", lambda: home)
    home.hosts_file.write_text("hosts:\n  box: {ssh: nobody@127.0.0.1:1}\n")
    daemon = begin(Clock())
    daemon.tick(database)
    home.hosts_file.write_text("hosts:\n  box: {ssh: nobody@127.0.0.1:1, priec: 2}\n")
    with only_instance(home):
        daemon.tick(database)
        assert main.run(["daemon", "status"]) == 0
        said = capsys.readouterr().out
        assert f"{home.hosts_file}:2: unknown key" in said
        assert "Until it is fixed, the hosts it named before (box) are watched." in said
        main.run(["daemon", "status", "--json"])
        told = json.loads(capsys.readouterr().out)
        jsonschema.validate(told, schema_of(SHAPES["daemon status"]))
        assert ":2: unknown key" in told["configuration"][0]
        home.hosts_file.write_text("hosts: {box: {ssh: nobody@127.0.0.1:1}}")
        daemon.tick(database)
        main.run(["daemon", "status"])
        assert "unknown key" not in capsys.readouterr().out


def test_a_status_that_a_newer_daemon_wrote_is_read(
    home: HomePaths, database: Database, begin: Callable[..., Daemon]
) -> None:
    begin(Hand().clock).tick(database)
    file = home.daemon / "status.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "added_later": 1}))
    assert (found := status.read(home)) is not None
    assert set(found.hosts) == {"local"}


def test_a_daemon_whose_store_is_deleted_ends_says_so_and_makes_no_empty_one(
    home: HomePaths, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("armada.daemon.service.TICK_S", 0.01)
    thread = threading.Thread(target=serve, args=(home,), kwargs={"auto": False})
    thread.start()
    eventually(lambda: (found := status.read(home)) is not None and found.hosts)
    (began,) = {found.started_at for found in [status.read(home)] if found}
    Database(home.state / "other.db").close()
    (home.state / "other.db").replace(home.store)
    eventually(lambda: (found := status.read(home)) is not None and found.started_at > began and found.ended is None)
    home.store.unlink()
    thread.join(60)
    assert not thread.is_alive()
    assert not home.store.exists()
    monkeypatch.setattr(HomePaths, "from_environment", lambda: home)
    assert main.run(["daemon", "status"]) == 7
    assert f"the store {home.store} was deleted or moved away" in capsys.readouterr().out


def test_a_broken_project_file_hides_only_its_own_hosts(home: HomePaths, database: Database, tmp_path: Path) -> None:
    project = tmp_path / "armada.yaml"
    project.write_text("hosts: [broken")
    hosts.record_facts(database, "mine", {}, origin=str(project))
    home.hosts_file.write_text("hosts: {desk: {ssh: desk}, released: {ssh: gone}}")
    hosts.mark_released(database, "released", 1.0)
    known = KnownHosts(home)
    assert set(known.read(database)) == {"local", "desk"}
    project.write_text("hosts: {mine: {local: true, root: /srv/mine}, desk: {ssh: other}}")
    found = known.read(database)
    assert set(found) == {"local", "desk", "mine"}
    assert found["desk"].ssh == "desk"
    hosts.mark_released(database, "released", None)
    assert "released" in known.read(database)
    with operation(database, kind="release", host="desk", argv=["armada"]) as recorded:
        recorded.step(WIPING)
        assert "desk" not in known.read(database)
    assert "desk" in known.read(database)  # nothing says that it was wiped


def test_a_host_that_does_not_answer_takes_no_place_of_those_that_do(home: HomePaths, database: Database) -> None:
    from armada.config.hosts import Host

    names = [f"h{n}" for n in range(MOST_AT_ONCE + 3)]
    everyone = {name: Host(name=name, local=True) for name in names}
    board = HostStatusRegistry()
    for name in names:
        board.add(name)
    for name in names[3:]:
        board.saw(name, 0.0, 0.0)
    release, begun = threading.Event(), list[str]()

    def sync_host(context: HostContext, run_ids: object, /, **_: object) -> list[object]:
        begun.append(context.host)
        release.wait(60)
        return []

    clock = SyncScheduler(
        home,
        board,
        due=lambda _database, _now: [Due(f"run-{name}", name, "every 10m") for name in names],
        sync_host=sync_host,  # type: ignore[arg-type]  # it answers with nothing
    )
    clock.tick(database, everyone, 0.0)
    clock.tick(database, everyone, 1.0)
    eventually(lambda: len(begun) == MOST_AT_ONCE)
    assert sorted(begun) == sorted(names[3:])
    release.set()
    eventually(lambda: not clock.busy)


def test_a_daemon_that_ends_interrupts_the_syncs_under_way(home: HomePaths, database: Database) -> None:
    board = HostStatusRegistry()
    board.add("local")
    board.saw("local", 0.0, 0.0)
    begun = threading.Event()
    ended: list[ArmadaError] = []

    def sync_host(context: HostContext, _run_ids: object, /, **_: object) -> list[object]:
        def ask() -> None:
            context.session.call("run.list", {})
            begun.set()

        try:
            while True:
                context.session.persist(ask)
        except ArmadaError as error:
            ended.append(error)
            raise

    scheduler = SyncScheduler(
        home,
        board,
        due=lambda _database, _now: [Due("run-1", "local", "every 10m")],
        sync_host=sync_host,  # type: ignore[arg-type]  # it answers with nothing
    )
    scheduler.tick(database, {"local": Host(name="local")}, 0.0)
    begun.wait()
    scheduler.close(60.0)
    eventually(lambda: not scheduler.busy)
    assert [type(error) for error in ended] == [SessionClosed]


def test_a_run_that_is_put_off_again_and_again_is_logged_once(
    home: HomePaths, database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    board = HostStatusRegistry()
    board.add("local")
    board.saw("local", 0.0, 0.0)
    busy, done = SyncOutcome("run-1", busy="a pull works on it"), SyncOutcome("run-1")
    answers = [busy, busy, done, busy]
    scheduler = SyncScheduler(
        home,
        board,
        due=lambda _database, _now: [Due("run-1", "local", "every 10m")],
        sync_host=lambda *_, **__: [answers.pop(0)],
    )
    caplog.set_level("INFO")
    for left in (3, 2, 1, 0):
        scheduler.tick(database, {"local": Host(name="local")}, 0.0)
        eventually(lambda left=left: len(answers) == left and not scheduler.busy)  # type: ignore[misc]
    assert [each.message for each in caplog.records] == ["local: run-1 is synced later: a pull works on it"] * 2


def test_a_host_left_alone_is_asked_again_within_a_minute() -> None:
    waits = [watcher.wait_after_failure_s(failures, 0.999) for failures in range(1, 40)]
    assert waits == sorted(waits)
    assert max(waits) <= watcher.IDLE_S
    assert watcher.wait_after_failure_s(20, 0.0) >= watcher.IDLE_S / 2


def test_while_a_dashboard_is_open_active_hosts_are_looked_at_every_second(home: HomePaths) -> None:
    assert watcher.active_wait_s(home, 1000.0) == watcher.ACTIVE_S
    home.daemon.mkdir(parents=True, exist_ok=True)
    home.looked_at.touch()
    os.utime(home.looked_at, (1000.0, 1000.0))
    assert watcher.active_wait_s(home, 1002.0) == watcher.SEEN_S
    assert watcher.active_wait_s(home, 1010.0) == watcher.ACTIVE_S, "it was closed, or killed"


def test_a_run_that_is_just_being_launched_is_left_to_its_launch(database: Database) -> None:
    runs.insert(database, run_id="x-aaaaaa", name="x", host="box", task="command", experiment=None, spec={})
    with operation(database, kind="launch", argv=["armada"], run_id="x-aaaaaa"):
        assert watcher.watchable(database, "box") == []
    assert [run.run_id for run in watcher.watchable(database, "box")] == ["x-aaaaaa"]


def test_a_run_whose_end_only_its_batch_system_told_is_looked_at_once_a_minute(
    home: HomePaths, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    for run_id, state in (("lives-1", "running"), ("told-1", "failed"), ("over-1", "failed")):
        runs.insert(database, run_id=run_id, name=run_id, host="box", task="command", experiment=None, spec={})
        told_at = 1_800_000_000.0 if run_id == "told-1" else None
        runs.record(database, run_id, Verdict(state, None, None, 1, 4), told_at=told_at)
    asked: list[set[str]] = []

    def observe(_database: object, _session: object, wanted: list[runs.Run], _also: object) -> list[object]:
        asked.append({run.run_id for run in wanted})
        raise ArmadaError("no answer")

    monkeypatch.setattr(watcher, "observe", observe)
    hand = Hand()
    watching = watcher.Watcher(Host(name="box", ssh="me@box"), home, HostStatusRegistry(), now=lambda: hand.now)
    for seconds in (0.0, 2.0, 50.0, 10.0, 7 * 86_400.0):
        hand.go(seconds)
        watching.look(database)
    both = {"lives-1", "told-1"}
    assert asked == [both, {"lives-1"}, {"lives-1"}, both, {"lives-1"}]


def test_numbers_from_a_host_are_numbers_or_nothing() -> None:
    load = {
        "gpus": [
            {"index": 0, "utilization": 97, "memory_used_bytes": 5, "power_w": None, "temperature_c": "hot"},
            {"index": "1"},
            "junk",
            {"index": 2, "utilization": float("nan"), "memory_used_bytes": 1e300},
        ]
    }
    first, third = watcher.points_of(Load.model_validate(load), 5.0)
    assert first == telemetry.Point(0, 5.0, 97.0, 5, None, None)
    assert third == telemetry.Point(2, 5.0, None, None, None, None)
    assert watcher.points_of(Load(), 5.0) == []


def test_old_telemetry_is_thinned_and_new_is_kept(database: Database) -> None:
    now = 2_000_000_000.0
    points = [telemetry.Point(gpu, now - age, 50.0, 1, None, None) for gpu in (0, 1) for age in range(0, 200_000, 10)]
    telemetry.record(database, "box", points)
    telemetry.record(database, "other", points[:10])
    assert telemetry.thin(database, "box", now) > 0
    assert telemetry.thin(database, "box", now) == 0
    for gpu in (0, 1):
        ages = [now - point.time for point in telemetry.of_host(database, "box") if point.gpu == gpu]
        assert len([age for age in ages if age <= 3600]) == 361
        assert len([age for age in ages if 3600 < age <= 86_400]) in range(1379, 1383)
        assert len([age for age in ages if age > 86_400]) in range(188, 192)
    assert len(telemetry.of_host(database, "other")) == 10
    telemetry.record(database, "box", [telemetry.Point(0, now - 40 * 86_400, 1.0, 1, None, None)])
    assert telemetry.thin(database, "box", now) == 1


def test_facts_clear_what_made_a_host_unreachable_and_keep_its_origin(database: Database) -> None:
    hosts.record_facts(database, "box", {"cpu_count": 8}, origin="/project/armada.yaml")
    hosts.mark_unreachable(database, "box", "no route")
    hosts.record_facts(database, "box", {"cpu_count": 9})
    record = hosts.find(database, "box")
    assert record is not None
    assert (record.facts, record.unreachable_since, record.origin) == ({"cpu_count": 9}, None, "/project/armada.yaml")


def test_a_store_of_the_first_version_is_brought_up(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection, connection:
        connection.executescript(MIGRATIONS[0])
        connection.execute("PRAGMA user_version = 1")
        connection.execute(
            """INSERT INTO runs (run_id, name, host, task, spec, state, created_at)
               VALUES ('x-aaaaaa', 'x', 'box', 'command', '{}', 'running', 1)"""
        )
        rows = [("box", '{"gpus": [{}, {}, {}]}'), ("odd", "{"), ("no", None), ("new", '{"gpus": 3}')]
        connection.executemany("INSERT INTO hosts (name, facts) VALUES (?, ?)", rows)
    with Database(path) as database:
        assert gpu_counts(database) == {"box": 3}
        assert runs.find(database, "x-").because is None
        assert operations.recent(database) == []
