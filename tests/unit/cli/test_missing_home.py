"""How many checkpoints are not seen at home, and what becomes of the question where their disk does not answer."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from armada.cli import missing_home
from armada.cli.missing_home import count_missing
from armada.store import runs
from armada.store.database import Database
from tests.waiting import WITHIN_S

RUN = "tale-abc234"


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """Two checkpoints are at home by its records, and one is."""
    with Database(tmp_path / "armada.db") as found:
        runs.insert(found, run_id=RUN, name="tale", host="box", task="command", experiment=None, spec={"job": {}})
        for step in (10, 20):
            found.connection.execute(
                """INSERT INTO checkpoints (run_id, digest, step, size_bytes, file_count, verified_at, home_path)
                   VALUES (?, ?, ?, 100, 1, 1.0, ?)""",
                (RUN, f"{step:064}", step, f"runs/{RUN}/checkpoints/checkpoint-{step}"),
            )
        (tmp_path / "runs" / RUN / "checkpoints" / "checkpoint-10").mkdir(parents=True)
        yield found


def test_checkpoints_that_are_not_seen_are_counted(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(missing_home, "_PATIENCE_S", WITHIN_S)
    assert count_missing(database, [runs.find(database, RUN)]) == {RUN: 1}
    assert not count_missing(database, [])


def test_a_disk_that_does_not_answer_is_not_waited_for(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = threading.Event()
    monkeypatch.setattr("armada.sync.checkpoints.folders.is_seen", lambda _: answers.wait())
    monkeypatch.setattr(missing_home, "_PATIENCE_S", 0.05)
    try:
        assert not count_missing(database, [runs.find(database, RUN)])
    finally:
        answers.set()
