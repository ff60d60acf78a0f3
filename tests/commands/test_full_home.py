"""A home whose disk is full shows what it last knew, and still stops runs, which cost money."""

from __future__ import annotations

import contextlib
import errno
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from armada.cli.main import run
from armada.errors import StoreUnwritable
from armada.paths import HomePaths
from armada.protocol.runs import ReadLog
from armada.store import read_only, runs
from armada.store.database import Database, explain
from armada.store.read_only import open_copy
from armada.store.runs import Run
from tests.commands.test_read_only_home import RUN
from tests.conftest import Armada
from tests.waiting import eventually


def fill(folder: Path) -> Path:
    """Write to a file system until it takes no more."""
    filler = folder / "filler"
    with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
        while True:
            file.write(b"x" * 4096)
    return filler


@pytest.fixture
def small(armada: Armada) -> Iterator[Armada]:
    """A home on a small disk of its own; what `local` runs is on another one."""
    home = armada.folder / "home"
    home.mkdir(exist_ok=True)
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(home)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("needs root to mount a small file system")
    try:
        (home / "state").mkdir(mode=0o700)
        elsewhere = armada.folder / "local"
        elsewhere.mkdir()
        (home / "state" / "local").symlink_to(elsewhere)
        yield armada
    finally:
        subprocess.run(["umount", "-l", str(home)], check=True)


def test_a_run_is_stopped_from_a_home_whose_disk_is_full(small: Armada) -> None:
    run_id = small.json("launch", "--host", "local", small.command("sleep", "600"))["run_id"]
    eventually(lambda: small.json("ps")[0]["state"] == "running", "the run")
    filler = fill(small.folder / "home")
    full = f"armada: the disk of {small.folder}/home/state is full ("
    for shown in (("ps",), ("show", run_id), ("why", run_id), ("sync", "ls")):
        done = small.run(*shown)
        assert done.returncode == 0, done.stderr
        assert run_id in done.stdout
        assert done.stderr.startswith(full)
        assert done.stderr.endswith("so no host is asked; showing the last known state\n")
    done = small.run("doctor")
    assert done.returncode == 3
    assert "it is full, so nothing can be recorded" in done.stdout
    assert "armada sync ls shows what checkpoints take" in done.stdout
    refused = small.run("tag", run_id, "good")
    assert refused.returncode == 2
    assert "→ the disk is full: free space on it" in refused.stderr

    done = small.run("stop", run_id, "--grace", "1")
    assert done.returncode == 0, done.stderr
    assert f"{run_id}: – cancelled" in done.stdout
    assert done.stderr.startswith(full)
    assert "so this cannot be recorded at home; home asks the host again when there is room" in done.stderr
    assert '"cancelled"' in (small.folder / "local" / "runs" / run_id / "state.json").read_text()

    assert small.json("ps", "--all")[0]["state"] == "running"  # what home last knew
    filler.unlink()
    assert small.json("ps", "--all")[0]["state"] == "cancelled"


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ARMADA_HOME", str(tmp_path / "home"))
    paths = HomePaths.from_environment()
    paths.make()
    with Database(paths.store) as database:
        runs.insert(database, run_id=RUN, name="tale", host="box", task="command", experiment=None, spec={"job": {}})
        runs.set_state(database, RUN, "running")
    return paths.store


def full_error() -> sqlite3.DatabaseError:
    """What SQLite raises where a store can grow no more."""
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("PRAGMA max_page_count = 1")
        with pytest.raises(sqlite3.OperationalError) as raised:
            connection.execute("CREATE TABLE lines (line TEXT)")
        return raised.value


@pytest.mark.parametrize("command", [("ps",), ("show", RUN), ("why", RUN)])
def test_what_fills_up_meanwhile_shows_the_last_known_state(
    store: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise full_error()

    monkeypatch.setattr("armada.monitor.observe.observe_all", refuse)
    monkeypatch.setattr("armada.cli.context.Context.session_about", refuse)
    assert run(command) == 0
    said = capsys.readouterr()
    assert RUN in said.out
    assert said.err.splitlines()[0] == (
        f"armada: {store}: the store cannot be used (database or disk is full), so no host is asked; showing the last known state"
    )


def test_the_advice_says_how_much_room_there_is(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = explain(full_error(), store)
    assert isinstance(told, StoreUnwritable)
    assert " free: check whether a quota is used up" in str(told.hint)
    monkeypatch.setattr("armada.store.room.free_bytes", lambda _: 4096)
    told = explain(full_error(), store)
    assert told is not None
    assert str(told.hint).startswith("the disk is full: free space on it")


@pytest.fixture
def dead(store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store as on a full disk, after the last program that had it open was killed: SQLite can make no index of the -wal."""
    dead = tmp_path / "dead" / "armada.db"
    dead.parent.mkdir()
    with Database(store) as database:
        runs.set_state(database, RUN, "stopping")
        for suffix in ("", "-wal"):
            dead.with_name(dead.name + suffix).write_bytes(store.with_name(store.name + suffix).read_bytes())
    fill_by = read_only._fill  # noqa: SLF001

    def without_index(memory: sqlite3.Connection, path: Path, mode: str) -> None:
        if mode == "mode=ro":
            raise sqlite3.OperationalError("disk I/O error")
        fill_by(memory, path, mode)

    monkeypatch.setattr("armada.store.read_only._fill", without_index)
    return dead


def test_a_copy_has_what_sqlite_has_not_merged_where_it_can_make_no_index(dead: Path) -> None:
    with open_copy(dead) as copy:
        assert runs.find(copy, RUN).state == "stopping"


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="needs a file system in memory")
def test_where_the_folder_for_temporary_files_is_full_too_memory_will_do(
    dead: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(dead / "full"))
    with open_copy(dead) as copy:
        assert runs.find(copy, RUN).state == "stopping"


def test_a_store_is_not_shown_without_its_newest_records(dead: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("armada.store.read_only.shutil.copy", refuse)
    with pytest.raises(StoreUnwritable, match=r"in armada\.db-wal, which .* \(No space left on device\)"):
        open_copy(dead)
    dead.with_name("armada.db-wal").unlink()
    with open_copy(dead) as copy:
        assert runs.find(copy, RUN).state == "running"  # all of it


def test_several_runs_are_told_at_once_where_home_turns_out_to_be_full(
    store: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    other = "tale-abd234"
    with Database(store) as database:
        runs.insert(database, run_id=other, name="tale", host="box", task="command", experiment=None, spec={"job": {}})
        runs.set_state(database, other, "running")
    done: list[list[str]] = []

    def refuse(*_: object, **__: object) -> None:
        raise full_error()

    def tell(_: object, chosen: list[Run], *__: object) -> None:
        done.append([each.run_id for each in chosen])

    def end(_: object, chosen: Run, *__: object) -> Run:
        done.append([chosen.run_id])
        return chosen._replace(state="cancelled", because="its host said so")

    monkeypatch.setattr("armada.store.running_operations.operation", refuse)
    monkeypatch.setattr("armada.cli.stop._tell_all", tell)
    monkeypatch.setattr("armada.cli.stop._end", end)
    assert run(["stop", RUN, other]) == 0
    assert done == [[RUN, other], [RUN], [other]]
    assert "so this cannot be recorded at home" in capsys.readouterr().err


def test_a_log_is_followed_on_while_home_fills_up(
    store: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert store.is_file()
    looks: list[Database] = []

    def observe(database: Database, *_: object) -> None:
        looks.append(database)
        if len(looks) == 2:
            raise full_error()
        if len(looks) == 4:
            runs.set_state(database, RUN, "succeeded")

    class Host:
        """A line more each time it is asked."""

        def call(self, question: ReadLog) -> SimpleNamespace:
            begin = question.offset or 0
            return SimpleNamespace(offset=begin, next_offset=begin + 5, size_bytes=begin + 5, text="line\n")

    monkeypatch.setattr("armada.monitor.observe.observe", observe)
    monkeypatch.setattr("armada.cli.context.Context.session_about", lambda *_: contextlib.nullcontext(Host()))
    monkeypatch.setattr("armada.cli.logs.time.sleep", lambda _: None)
    assert run(["logs", RUN, "--follow"]) == 0
    said = capsys.readouterr()
    assert said.out == "line\n" * 4
    assert "so this cannot be recorded at home" in said.err
    assert looks[0] is looks[1]
    assert looks[1] is not looks[2]


@pytest.mark.parametrize(
    ("because", "code", "words"),
    [(None, 7, f"box has no records of {RUN}, and home has no room to record"), ("its supervisor", 0, "– cancelled")],
    ids=["never there", "stopped there"],
)
def test_a_stop_that_only_home_could_record_is_not_said_to_be_done(
    store: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    because: str | None,
    code: int,
    words: str,
) -> None:
    def stop(database: Database, _: object, run: Run, *__: object) -> Run:
        runs.set_state(database, run.run_id, "cancelled", reason="killed_by_user", judged=run)
        found = runs.find(database, run.run_id)
        return found if because is None else found._replace(because=because)

    monkeypatch.setattr("armada.cli.context.say_full", lambda _: "the disk of home is full")
    monkeypatch.setattr("armada.cli.context.Context.session_of", lambda *_, **__: contextlib.nullcontext())
    monkeypatch.setattr("armada.launch.stop.stop_run", stop)
    assert run(["stop", RUN]) == code
    said = capsys.readouterr()
    assert words in said.out + said.err
    with Database(store) as database:
        assert runs.find(database, RUN).state == "running"
