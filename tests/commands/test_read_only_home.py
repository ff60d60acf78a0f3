"""A home that cannot be written, as on a backup or in somebody else's folder, is read all the same."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from armada.cli.main import run
from armada.errors import ConfigError
from armada.paths import HomePaths
from armada.store import runs
from armada.store.database import MIGRATIONS, Database
from armada.store.read_only import is_read_only, open_copy

RUN = "tale-abc234"


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A store whose last run is still beside it, in what SQLite has not merged; nobody may write there."""
    monkeypatch.setenv("ARMADA_HOME", str(tmp_path / "home"))
    paths = HomePaths.from_environment()
    paths.make()
    database = Database(paths.store)
    runs.insert(database, run_id=RUN, name="tale", host="box", task="command", experiment=None, spec={"job": {}})
    runs.set_state(database, RUN, "running")
    outputs = paths.run(RUN) / "outputs"
    outputs.mkdir(parents=True)
    (outputs / "output.log").write_text("one\ntwo\n")
    monkeypatch.setattr("armada.store.read_only.os.access", lambda *_: False)  # root may write everywhere
    assert paths.store.with_name("armada.db-wal").stat().st_size
    yield paths.store
    database.close()


@pytest.mark.parametrize(
    ("command", "code", "words"),
    [
        (("ps",), 0, RUN),
        (("ps", "--cached"), 0, RUN),
        (("show", RUN), 0, "running"),
        (("why", RUN), 0, "running"),
        (("sync", "ls"), 0, RUN),
        (("diff", RUN, RUN), 0, "no difference"),
        (("export", RUN, "--csv", "-"), 0, "run,step,time"),
        (("logs", RUN), 4, "two"),
    ],
)
def test_what_only_shows_shows_what_home_last_knew(
    store: Path, capsys: pytest.CaptureFixture[str], command: tuple[str, ...], code: int, words: str
) -> None:
    before = {path: path.stat().st_mtime_ns for path in store.parent.rglob("*") if path.name != "armada.db-shm"}
    assert run(command) == code
    said = capsys.readouterr()
    assert words in said.out
    assert "this home is not writable, so no host is asked" in said.err
    after = {path: path.stat().st_mtime_ns for path in store.parent.rglob("*") if path.name != "armada.db-shm"}
    assert after == before


@pytest.mark.parametrize(
    "command",
    [
        ("stop", RUN),
        ("pull", RUN),
        ("sync", "now"),
        ("rm", RUN),
        ("hosts", "ls"),
        ("reproduce", RUN, "--to", "x"),
        ("daemon", "start"),
        ("recover", "--dry-run"),
    ],
)
def test_what_must_write_says_so_in_one_sentence(
    store: Path, capsys: pytest.CaptureFixture[str], command: tuple[str, ...]
) -> None:
    assert run(command) == 2
    said = capsys.readouterr().err
    assert f"armada: {store.parent}: this home is not writable" in said
    assert len(said.splitlines()) == 2


def test_the_state_of_the_daemon_and_a_diagnosis_need_no_writing(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["daemon", "status"]) == 7
    assert capsys.readouterr().out.startswith("no daemon has been started from this home\n")
    assert run(["doctor"]) == 3
    said = capsys.readouterr()
    assert f"{store.parent} is not writable" in said.out
    assert "1 runs" in said.out
    assert not said.err


def test_a_store_of_an_older_armada_is_brought_up_to_date_in_the_copy_alone(tmp_path: Path) -> None:
    path = tmp_path / "armada.db"
    with contextlib.closing(sqlite3.connect(path)) as old, old:
        old.executescript(MIGRATIONS[0] + ";PRAGMA user_version = 1")
    before = path.read_bytes()
    with open_copy(path) as copy:
        assert runs.every(copy) == []
    assert path.read_bytes() == before
    path.write_bytes(b"no store at all" * 100)
    with pytest.raises(ConfigError):
        open_copy(path)


def test_a_home_without_a_store_is_not_called_read_only(tmp_path: Path) -> None:
    assert not is_read_only(tmp_path / "armada.db")
    Database(tmp_path / "armada.db").close()
    assert not is_read_only(tmp_path / "armada.db")
