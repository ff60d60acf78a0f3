"""Where a daemon is needed and none runs, the lists say so; one that died before its first record is not denied."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from armada.cli.main import run
from armada.daemon import instance
from armada.daemon.journal import log_file
from armada.foundation.locks import FileLock
from armada.paths import HomePaths
from armada.store import hosts, runs
from armada.store.database import Database

RUN = "tale-abc234"
NOBODY = "(no daemon watches 1 active run: armada daemon start)"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> HomePaths:
    """A home with a run that was launched an hour ago, and has a checkpoint on its host."""
    monkeypatch.setenv("ARMADA_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("ARMADA_NO_DAEMON", raising=False)
    monkeypatch.setattr("armada.monitor.observe.observe_all", lambda *_, **__: {})
    paths = HomePaths.from_environment()
    paths.make()
    paths.config.mkdir(parents=True, exist_ok=True)
    paths.hosts_file.write_text("hosts: {box: {ssh: 'me@127.0.0.1:1'}}\n")
    with Database(paths.store) as database:
        runs.insert(database, run_id=RUN, name="tale", host="box", task="command", experiment=None, spec={"job": {}})
        runs.set_state(database, RUN, "running")
        database.connection.execute(
            "INSERT INTO checkpoints (run_id, digest, step, size_bytes, file_count) VALUES (?, ?, 10, 100, 1)",
            (RUN, "0" * 64),
        )
        database.connection.execute("UPDATE runs SET created_at = created_at - 3600")
    return paths


def test_the_list_of_runs_says_that_no_daemon_watches_them(
    home: HomePaths, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(["ps"]) == 0
    assert NOBODY in capsys.readouterr().out
    home.daemon.mkdir(parents=True, exist_ok=True)
    with FileLock(instance.lock_file(home)) as lock:
        assert lock.try_acquire()
        assert run(["ps"]) == 0
        assert run(["sync", "ls"]) == 0
        assert "(no daemon" not in capsys.readouterr().out
    assert run(["sync", "ls"]) == 0
    assert "(no daemon brings 1 waiting checkpoint home: armada daemon start)" in capsys.readouterr().out
    monkeypatch.setenv("ARMADA_NO_DAEMON", "1")  # as the person who set this wants it
    assert run(["ps"]) == 0
    assert NOBODY not in capsys.readouterr().out


def test_of_a_host_that_was_removed_nothing_is_said(home: HomePaths, capsys: pytest.CaptureFixture[str]) -> None:
    """A daemon that is started for it could not reach it."""
    home.hosts_file.write_text("hosts: {}\n")
    for command in (["ps"], ["sync", "ls"]):
        assert run(command) == 0
        assert "(no daemon" not in capsys.readouterr().out
    project = home.state.parent / "project"
    project.mkdir()
    (project / "armada.yaml").write_text("hosts: {box: {ssh: 'me@127.0.0.1:1'}}\n")
    with Database(home.store) as database:
        hosts.record_facts(database, "box", {}, origin=str(project / "armada.yaml"))
    assert run(["ps"]) == 0  # the daemon knows the hosts of the projects that runs were launched from
    assert NOBODY in capsys.readouterr().out


def test_a_lock_that_cannot_be_asked_ends_no_list(
    home: HomePaths, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: HomePaths) -> bool:
        raise PermissionError(13, "Permission denied", str(instance.lock_file(home)))

    monkeypatch.setattr(instance, "is_held", refuse)
    assert run(["ps", "--cached"]) == 0
    assert run(["sync", "ls"]) == 0
    assert "(no daemon" not in capsys.readouterr().out


def test_a_daemon_that_died_before_its_first_record_was_started_all_the_same(
    home: HomePaths, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["daemon", "status"]) == 7
    assert capsys.readouterr().out.startswith("no daemon has been started from this home\n")
    home.daemon.mkdir(parents=True, exist_ok=True)
    log_file(home).touch()
    assert run(["daemon", "status"]) == 7
    said = capsys.readouterr().out.splitlines()[0]
    assert re.fullmatch(r"not running: a daemon was started at \d\d:\d\d and ended without a record", said)
