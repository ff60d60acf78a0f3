"""A daemon under which armada is upgraded, and one that cannot open its store for a while."""

from __future__ import annotations

import contextlib
import socket
import sqlite3
import tempfile
import threading
import time
from pathlib import Path

import pytest

from armada import __version__
from armada.cli import main
from armada.config.hosts import Host
from armada.daemon import control, instance, journal, service, status, watcher
from armada.daemon.host_status import HostStatusRegistry
from armada.daemon.service import Daemon, serve
from armada.errors import ArmadaError, ConfigError, Conflict
from armada.foundation import process_identity
from armada.notifications import messenger
from armada.paths import HomePaths
from armada.store import database as stored
from armada.store.database import Database
from armada.store.queries.renewal import KNOWN, version_of
from tests.conftest import Armada, eventually


@pytest.fixture
def home(tmp_path: Path) -> HomePaths:
    paths = HomePaths(config=tmp_path / "config", state=tmp_path / "state")
    paths.make()
    paths.daemon.mkdir()
    return paths


def renew(home: HomePaths) -> None:
    """Do what the first command of a newer release does."""
    connection = sqlite3.connect(home.store)
    connection.execute(f"PRAGMA user_version = {KNOWN + 1}")
    connection.close()


def test_a_daemon_whose_store_a_newer_armada_renewed_lets_the_new_program_start(
    home: HomePaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "TICK_S", 0.01)
    ended: list[bool] = []
    thread = threading.Thread(target=lambda: ended.append(serve(home, auto=False)))
    thread.start()
    eventually(lambda: (found := status.read(home)) is not None and found.hosts)
    renew(home)
    thread.join(60)
    assert ended == [True]
    found = status.read(home)
    assert found is not None
    assert found.ended is not None
    assert found.ended.startswith("a newer armada than ")
    with pytest.raises(ConfigError, match="this armada knows versions up to"):  # a program that is still the old one
        serve(home, auto=False)


@pytest.mark.parametrize(
    "trouble",
    [Conflict("another program has locked the store"), ConfigError("the store cannot be used (database is full)")],
)
def test_a_watcher_that_cannot_open_the_store_tries_again(
    home: HomePaths, monkeypatch: pytest.MonkeyPatch, trouble: ArmadaError
) -> None:
    Database(home.store).close()
    troubles = [trouble]

    def opened(path: Path, *, existing: bool) -> Database:
        if troubles:
            raise troubles.pop()
        return Database(path, existing=existing)

    monkeypatch.setattr(watcher, "Database", opened)
    monkeypatch.setattr(watcher, "wait_after_failure_s", lambda failures, roll: 0.0)
    board = HostStatusRegistry()
    watching = watcher.Watcher(Host(name="local", local=True), home, board)
    watching.start()
    try:
        eventually(lambda: board.hosts()["local"].state == "ok")
    finally:
        watching.stop()
        watching.join(60)


def test_a_messenger_that_cannot_open_the_store_tries_again(home: HomePaths, monkeypatch: pytest.MonkeyPatch) -> None:
    Database(home.store).close()
    troubles = [Conflict("another program has locked the store")]
    worked = threading.Event()

    def opened(path: Path, *, existing: bool) -> Database:
        if troubles:
            raise troubles.pop()
        worked.set()
        return Database(path, existing=existing)

    monkeypatch.setattr(messenger, "Database", opened)
    monkeypatch.setattr(messenger, "REOPEN_S", 0.0)
    at_work = messenger.Messenger(home)
    at_work.start()
    assert worked.wait(60)
    at_work.stop()


def test_a_host_whose_watcher_ended_gets_another(home: HomePaths, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[watcher.Watcher] = []
    true_start = watcher.Watcher.start

    def start(self: watcher.Watcher) -> None:
        started.append(self)
        if len(started) > 1:
            true_start(self)

    monkeypatch.setattr(watcher.Watcher, "start", start)
    daemon = Daemon(home)
    try:
        with Database(home.store) as database:
            daemon.tick(database)
            daemon.tick(database)
            daemon.tick(database)
        assert [each.host.name for each in started] == ["local", "local"]
    finally:
        daemon.close()


def test_the_program_that_is_installed_now_takes_the_place_of_the_daemon(armada: Armada) -> None:
    home = HomePaths(armada.folder / "home" / "config", armada.folder / "home" / "state")
    armada.run("daemon", "start")
    (held,) = [instance.holder(home)]
    assert held is not None
    renew(home)
    # Here the installed program is the same one, which refuses the store.
    eventually(lambda: "this armada knows versions up to" in journal.log_file(home).read_text())
    assert f"a newer armada than {__version__} renewed the store" in armada.run("daemon", "status").stdout
    assert not process_identity.lives(held)


@pytest.mark.parametrize(
    ("store", "end"),
    [("there", "over"), ("gone", "over"), ("replaced", "another store"), ("renewed", "another program")],
)
def test_systemd_hears_of_an_end_only_from_a_process_that_ends(
    home: HomePaths, monkeypatch: pytest.MonkeyPatch, store: str, end: str
) -> None:
    daemon = Daemon(home)
    if store == "there":
        daemon.stop()
    else:
        monkeypatch.setattr(service, "_state_of", lambda database: store)
    with tempfile.TemporaryDirectory(dir="/tmp") as short, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(f"{short}/notify")
        monkeypatch.setenv("NOTIFY_SOCKET", f"{short}/notify")
        assert daemon.run() == end
        systemd.setblocking(False)
        said: list[bytes] = []
        with contextlib.suppress(BlockingIOError):
            while True:
                said.append(systemd.recv(1000))
    assert said[0].startswith(b"READY=1\n")
    assert (b"STOPPING=1" in said) == (end == "over")


@pytest.fixture
def old_store(home: HomePaths, monkeypatch: pytest.MonkeyPatch) -> int:
    """Make the store of the former release, and this process its user's; return the version."""
    with monkeypatch.context() as former:
        former.setattr(stored, "MIGRATIONS", stored.MIGRATIONS[:-1])
        Database(home.store).close()
    monkeypatch.setattr(HomePaths, "from_environment", lambda: home)
    monkeypatch.delenv("ARMADA_NO_DAEMON", raising=False)
    return KNOWN - 1


def report(home: HomePaths, *, auto: bool, version: str = "0.0.7") -> None:
    """Write what a daemon that is this process would have written."""
    me, now = process_identity.current(), time.time()
    status.write(home, status.Status(me.pid, me.start_time, me.boot_id, version, auto, now, now, {}, ()))


def test_who_migrates_the_store_below_a_daemon_that_stays_is_told_once(
    home: HomePaths, old_store: int, capsys: pytest.CaptureFixture[str]
) -> None:
    with instance.only_instance(home):
        report(home, auto=False)
        assert main.run(["ps"]) == 0
        told = f"the store was migrated from version {old_store} to {KNOWN}. The daemon starts again; "
        assert told in capsys.readouterr().err
        assert main.run(["ps"]) == 0
        assert capsys.readouterr().err == ""


def test_who_migrates_the_store_below_an_automatic_daemon_starts_another(
    home: HomePaths, old_store: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    started: list[bool] = []

    def start(of: HomePaths, *, auto: bool) -> bool:
        assert of == home
        started.append(auto)
        return True

    monkeypatch.setattr(control, "start", start)
    with instance.only_instance(home):
        report(home, auto=True)
        assert main.run(["ps"]) == 0
        assert f"from version {old_store} to {KNOWN}; a daemon of this armada takes" in capsys.readouterr().err
        assert main.run(["ps"]) == 0
    assert started == [True]


def test_a_store_that_is_migrated_without_a_daemon_is_not_spoken_of(
    home: HomePaths, old_store: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(control, "start", pytest.fail)
    assert main.run(["ps"]) == 0
    assert capsys.readouterr().err == ""
    with Database(home.store) as database:
        assert version_of(database) == old_store + 1


@pytest.mark.parametrize("becomes", ["automatic", "one that stays", "gone"])
def test_a_daemon_that_is_only_starting_is_waited_for(
    home: HomePaths, monkeypatch: pytest.MonkeyPatch, becomes: str
) -> None:
    stopped: list[HomePaths] = []
    waits: list[float] = []
    monkeypatch.setattr(control, "stop", stopped.append)
    with contextlib.ExitStack() as daemon:
        daemon.enter_context(instance.only_instance(home))

        def pause(seconds: float) -> None:
            waits.append(seconds)
            if len(waits) == 3 and becomes == "gone":
                daemon.close()
            elif len(waits) == 3:
                report(home, auto=becomes == "automatic")

        monkeypatch.setattr("armada.daemon.control.time.sleep", pause)
        control.take_over(home)
    assert len(waits) == 3
    assert stopped == ([home] if becomes == "automatic" else [])
