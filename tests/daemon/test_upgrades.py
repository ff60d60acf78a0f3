"""A daemon under which armada is upgraded, and one that cannot open its store for a while."""

from __future__ import annotations

import contextlib
import socket
import sqlite3
import tempfile
import threading
from pathlib import Path

import pytest

from armada import __version__
from armada.config.hosts import Host
from armada.daemon import instance, journal, service, status, watcher
from armada.daemon.host_status import HostStatusRegistry
from armada.daemon.service import Daemon, serve
from armada.errors import ArmadaError, ConfigError, Conflict
from armada.foundation import process_identity
from armada.notifications import messenger
from armada.paths import HomePaths
from armada.store.database import Database
from armada.store.queries.renewal import KNOWN
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
