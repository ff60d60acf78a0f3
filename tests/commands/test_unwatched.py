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
from armada.store import runs
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
