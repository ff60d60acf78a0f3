"""The step of a run without heartbeats: its curves tell it."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from armada.store import metrics, runs
from armada.store.database import Database


def tell(database: Database, offset: int, *lines: dict[str, object]) -> int | None:
    told = [{"kind": "train", "time": 1.0, "loss": 0.5, **line} for line in lines]
    assert metrics.record_metrics(database, "c-1", told, offset=offset, next_offset=offset + 1)
    return runs.find(database, "c-1").step


def test_a_command_with_a_curve_has_a_step_and_evaluations_and_benches_have_none(tmp_path: Path) -> None:
    with Database(tmp_path / "armada.db") as database:
        runs.insert(database, run_id="c-1", name="c", host="h", task="command", experiment=None, spec={})
        assert tell(database, 0, {"kind": "bench", "step": 4}, {"kind": "eval", "step": 9}) is None
        assert tell(database, 1, {"step": 5}, {"step": 7}) == 7
        assert tell(database, 2, {"step": 6}) == 7
        with database.transaction() as connection:
            connection.execute("UPDATE runs SET step = 8, total_steps = 20")  # a heartbeat
        assert tell(database, 3, {"step": 12}) == 8


@pytest.mark.parametrize("pace", [[1e308], [1.7e308, 1.7e308], [-1e308], [-1.0], [1e7]])
def test_a_pace_that_no_run_has_foretells_no_end(tmp_path: Path, pace: list[float]) -> None:
    with Database(tmp_path / "armada.db") as database:
        runs.insert(database, run_id="c-1", name="c", host="h", task="sft", experiment=None, spec={})
        database.connection.execute("UPDATE runs SET total_steps = 1000")
        lines: list[dict[str, object]] = [{"step": 1, "step_time_s": each} for each in pace]
        tell(database, 0, *lines)
        database.connection.execute("UPDATE runs SET step = 5")
        run = runs.find(database, "c-1")
        assert run.step_time_s is None or math.isfinite(run.step_time_s)
        assert run.eta_s is None
        tell(database, 1, {"step": 5, "step_time_s": 2.0})
        assert runs.find(database, "c-1").eta_s == 1990.0
