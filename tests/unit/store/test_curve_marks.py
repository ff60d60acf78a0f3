"""Where curves have values that are not finite, and where their run was resumed."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from armada.store import metrics, runs
from armada.store.database import Database
from armada.store.queries.curve_marks import read_gaps, read_resumes

RUN = "t-aaaaaa"


@pytest.fixture
def database(tmp_path: Path) -> Database:
    database = Database(tmp_path / "store.db")
    runs.insert(database, run_id=RUN, name="t", host="box", task="sft", experiment=None, spec={})
    values = [math.nan, 1.0, math.inf, math.nan, 2.0, 3.0, -math.inf]
    lines = [{"kind": "train", "step": step, "time": 100.0 + step, "loss": value} for step, value in enumerate(values)]
    assert metrics.record_metrics(database, RUN, lines, offset=0, next_offset=1)
    return database


def test_a_gap_is_known_by_its_first_step(database: Database) -> None:
    assert read_gaps(database, RUN, "loss") == [0, 2, 6]
    assert read_gaps(database, RUN, "loss", most=2) == [0, 2]
    assert read_gaps(database, RUN, "none") == []


def test_a_resume_is_at_the_first_step_after_it(database: Database) -> None:
    assert read_resumes(database, RUN, "loss", [102.5, 104.0]) == [3, 4]
    assert read_resumes(database, RUN, "loss", [50.0]) == [], "it was resumed before this curve began"
    assert read_resumes(database, RUN, "loss", [200.0]) == [], "no step was made since"
    assert read_resumes(database, RUN, "none", [102.5]) == []
