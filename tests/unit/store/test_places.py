"""Paths in the store: relative to it, so that a home means its own files wherever it lies."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
from pathlib import Path

import pytest

from armada.store import checkpoints, files_home, places
from armada.store.database import MIGRATIONS, Database

PLACES_CAME = 6
"""The version of a store that has them."""


def old_store(state: Path) -> None:
    """A store of the version before, with one published checkpoint, as the first release wrote it."""
    state.mkdir(parents=True)
    with contextlib.closing(sqlite3.connect(state / "armada.db")) as connection, connection:
        connection.execute("PRAGMA journal_mode = WAL")
        for migration in MIGRATIONS[: PLACES_CAME - 1]:
            connection.executescript(migration)
        connection.execute(f"PRAGMA user_version = {PLACES_CAME - 1}")
        connection.execute(
            "INSERT INTO runs (run_id, name, host, task, spec, state, created_at) VALUES ('r-1', 'r', 'box', 'sft', '{}', 'succeeded', 1)"
        )
        place = state / "runs" / "r-1" / "checkpoints" / "checkpoint-5"
        connection.execute(
            """INSERT INTO checkpoints (run_id, digest, step, size_bytes, file_count, home_path, verified_at)
               VALUES ('r-1', ?, 5, 9, 1, ?, 1)""",
            ("d" * 64, str(place)),
        )
        rows = [("a" * 64, str(place / "model.bin"), 9), ("b" * 64, "/elsewhere/runs/r-1/x", 9)]
        connection.executemany("INSERT INTO files_home VALUES (?, ?, ?)", rows)


def test_a_store_of_the_first_release_means_its_own_files(tmp_path: Path) -> None:
    state = tmp_path / "data of runs" / "runs" / "state"
    old_store(state)
    with Database(state / "armada.db") as database:
        (checkpoint,) = checkpoints.of_run(database, "r-1")
        assert checkpoint.home_path == state / "runs" / "r-1" / "checkpoints" / "checkpoint-5"
        assert files_home.find(database, "a" * 64) == [checkpoint.home_path / "model.bin"]
        assert files_home.find(database, "b" * 64) == []
        assert not files_home.proven(database, checkpoint.home_path / "model.bin", "a" * 64), (
            "nobody has looked at it yet"
        )


@pytest.mark.parametrize("opened_before", [False, True])
def test_a_home_that_was_copied_or_moved_means_the_files_beside_its_store(tmp_path: Path, opened_before: bool) -> None:
    old_store(tmp_path / "first")
    if opened_before:
        Database(tmp_path / "first" / "armada.db").close()
    shutil.copytree(tmp_path / "first", tmp_path / "copy")
    with Database(tmp_path / "copy" / "armada.db") as database:
        (checkpoint,) = checkpoints.of_run(database, "r-1")
        assert checkpoint.home_path == tmp_path / "copy" / "runs" / "r-1" / "checkpoints" / "checkpoint-5"


@pytest.mark.parametrize("text", ["../other/runs/r/checkpoints/c", "runs/../../x", "etc/passwd", "/etc/passwd", ""])
def test_no_text_in_a_store_means_a_place_outside_its_home(tmp_path: Path, text: str) -> None:
    with Database(tmp_path / "armada.db") as database:
        found = places.read(database, text)
        assert found is None or found.is_relative_to(tmp_path)
        assert found is None


def test_what_lies_outside_is_not_written_down(tmp_path: Path) -> None:
    with Database(tmp_path / "state" / "armada.db") as database, pytest.raises(ValueError, match="not in the subpath"):
        places.write(database, tmp_path / "elsewhere")


def test_a_file_is_proven_until_it_is_touched(tmp_path: Path) -> None:
    with Database(tmp_path / "armada.db") as database:
        file = tmp_path / "runs" / "r" / "checkpoints" / "c" / "model.bin"
        file.parent.mkdir(parents=True)
        file.write_bytes(b"123")
        files_home.record(database, [("a" * 64, file, 3)])
        assert files_home.proven(database, file, "a" * 64)
        assert not files_home.proven(database, file, "b" * 64)
        file.write_bytes(b"124")
        assert not files_home.proven(database, file, "a" * 64)


def test_a_link_and_its_end_leave_the_other_file_proven(tmp_path: Path) -> None:
    with Database(tmp_path / "armada.db") as database:
        one, two = (tmp_path / "runs" / "r" / "checkpoints" / name / "base.bin" for name in ("1", "2"))
        for file in (one, two):
            file.parent.mkdir(parents=True)
        one.write_bytes(b"123")
        files_home.record(database, [("a" * 64, one, 3)])
        two.hardlink_to(one)
        assert not files_home.proven(database, one, "a" * 64), "its ctime is another one now"
        files_home.record(database, [("a" * 64, two, 3)])
        assert files_home.proven(database, one, "a" * 64)
        links = files_home.linked_to(database, two.parent)
        assert links == [("a" * 64, one, 3)]
        files_home.forget(database, two.parent)
        shutil.rmtree(two.parent)
        files_home.record(database, links)
        assert files_home.proven(database, one, "a" * 64)
