"""Metrics beyond the curves that are kept of a run: their names are noted, as many as have room."""

from __future__ import annotations

from pathlib import Path

import pytest

from armada.store import metrics, runs
from armada.store.database import Database
from armada.tui import left_out


@pytest.fixture
def database(tmp_path: Path) -> Database:
    made = Database(tmp_path / "state.db")
    for run_id in ("one-aaaaaa", "two-bbbbbb"):
        runs.insert(made, run_id=run_id, name=run_id[:3], host="box", task="command", experiment=None, spec={})
    return made


def record(database: Database, offset: int, *names: str) -> None:
    line = {"kind": "train", "step": offset + 1, "time": 1.0, **dict.fromkeys(names, 1.0)}
    assert metrics.record_metrics(database, "one-aaaaaa", [line], offset=offset, next_offset=offset + 1)


def test_what_is_beyond_the_kept_curves_is_noted_once_however_often_it_comes(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics, "MOST_SERIES", 2)
    record(database, 0, "a", "b")
    assert metrics.left_out(database, "one-aaaaaa") == []
    record(database, 1, "a", "d", "c")
    record(database, 2, "c", "b", "x" * 300)
    found = metrics.left_out(database, "one-aaaaaa")
    assert found[:2] == ["c", "d"]
    assert [len(name) for name in found] == [1, 1, metrics.LONGEST_NAME]
    assert metrics.names(database, "one-aaaaaa") == ["a", "b"]
    assert metrics.left_out(database, "two-bbbbbb") == []
    with database.transaction() as connection:
        connection.execute("DELETE FROM runs WHERE run_id = 'one-aaaaaa'")
    assert metrics.left_out(database, "one-aaaaaa") == []


def test_a_host_cannot_fill_the_disk_with_names(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "MOST_SERIES", 0)
    for batch in range(4):
        record(database, batch, *(f"m{batch}_{number}" for number in range(200)))
    assert len(metrics.left_out(database, "one-aaaaaa")) == metrics.MOST_LEFT_OUT


def test_the_sentence_names_the_first_and_the_file(tmp_path: Path) -> None:
    assert left_out.words([], tmp_path) == ""
    one = left_out.words(["acc\x1b[31m"], tmp_path)
    assert one == "1 more metric is not kept: acc�[31m. All are in metrics.jsonl of the run, which y brings home"
    (tmp_path / "metrics.jsonl").touch()
    some = left_out.words(["a", "b", "c", "d"], tmp_path)
    assert some == f"4 more metrics are not kept: a, b, c, … All are in {tmp_path / 'metrics.jsonl'}"
    assert left_out.words(["a"] * metrics.MOST_LEFT_OUT, tmp_path).startswith("At least 500 more metrics are not kept")
