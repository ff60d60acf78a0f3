"""Where a step's time went, added up from curves."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import pytest

from armada.store import metrics, runs
from armada.store.database import Database
from armada.store.queries.step_times import PARTS, read_step_times

RUN = "t-aaaaaa"


@pytest.fixture
def database(tmp_path: Path) -> Database:
    database = Database(tmp_path / "store.db")
    runs.insert(database, run_id=RUN, name="t", host="box", task="sft", experiment=None, spec={})
    return database


def record(database: Database, *lines: Mapping[str, object]) -> None:
    told = [{"kind": "train", "time": 1.0, **line} for line in lines]
    assert metrics.record_metrics(database, RUN, told, offset=0, next_offset=1)


def test_a_line_stands_for_the_steps_since_the_one_before(database: Database) -> None:
    assert read_step_times(database, RUN) is None
    record(
        database,
        {"step": 1, "time/data": 8.0, "time/evaluation": 100.0},
        *({"step": step, "time/data": 1.0, "time/evaluation": 0.0} for step in range(10, 101, 10)),
        {"step": 100, "kind": "summary", "time/evaluation": 50.0, "time/saving": 3.0, "time/data": "x"},
    )
    whole = read_step_times(database, RUN)
    assert whole is not None
    assert (whole.first_step, whole.last_step, whole.steps, whole.points) == (1, 100, 100, 11)
    assert whole.parts_s == {"data": 107, "evaluation": 150}
    last = read_step_times(database, RUN, 25)
    assert last is not None
    assert (last.first_step, last.last_step, last.points) == (71, 100, 3)  # whole lines only
    assert last.parts_s == {"data": 30, "evaluation": 0}
    assert (last.slowest_rank, last.waits_s, last.data_slowest_s) == (None, None, 30)


def test_a_run_whose_first_steps_were_not_measured_counts_from_the_first_line(database: Database) -> None:
    record(database, *({"step": step, "time/forward": 2.0} for step in (510, 520, 530)))
    whole = read_step_times(database, RUN)
    assert whole is not None
    assert (whole.first_step, whole.steps, whole.parts_s["forward"]) == (501, 30, 60)


def test_the_slowest_process_is_the_one_that_was_it_for_most_steps(database: Database) -> None:
    record(
        database,
        {"step": 1, "time/data": 1.0, "time/slowest_rank": 0, "time/waits_for_it": 1.0, "time/data_slowest": 4.0},
        {"step": 2, "time/data": 1.0, "time/slowest_rank": 0, "time/waits_for_it": 1.0, "time/data_slowest": 4.0},
        {"step": 9, "time/data": 1.0, "time/slowest_rank": 3, "time/waits_for_it": 2.0, "time/data_slowest": 2.0},
    )
    whole = read_step_times(database, RUN)
    assert whole is not None
    assert (whole.slowest_rank, whole.waits_s, whole.data_slowest_s) == (3, 16, 22)


@pytest.mark.parametrize("value", [-1.0, math.nan, math.inf, -math.inf, 1e300, 10**400, "1", True, None, [1]])
def test_times_that_no_training_takes_are_not_believed(database: Database, value: object) -> None:
    record(database, {"step": 1, "time/data": 1.0}, {"step": 2, "time/data": value}, {"step": 3, "time/data": 1.0})
    whole = read_step_times(database, RUN)
    assert whole is not None
    assert 1 <= whole.parts_s["data"] <= 3
    assert read_step_times(database, RUN, 10**9) is not None


def test_steps_that_no_training_reaches_overflow_nothing(database: Database) -> None:
    record(database, *({"step": step, "time/data": 9e8} for step in (0, 1, 2**31, 2**53, 2**62, 2**63 - 1)))
    for last in (None, 1, 50):
        found = read_step_times(database, RUN, last)
        assert found is None or found.steps >= 1


def test_a_run_that_only_says_odd_things_was_not_measured(database: Database) -> None:
    record(database, {"step": 0, "time/data": 1.0}, {"step": 5, "time/fps": 60.0, "time/slowest_rank": 2})
    assert read_step_times(database, RUN) is None


def test_home_and_payload_name_the_same_parts() -> None:
    from armada_train.training import time_parts

    assert time_parts.PARTS == PARTS
    told = {name.removeprefix("time/") for name in time_parts.RANK_TIMES}
    assert told == {"slowest_rank", "waits_for_it", "data_slowest"}
