"""The cores of a host are shared by the runs that compute on them."""

from __future__ import annotations

from pathlib import Path

import pytest

from armada.launch.training.cores import share_cores
from armada.store import runs
from armada.store.database import Database
from armada.store.queries.cores import read_cores_taken
from armada.verdicts.states import Verdict


@pytest.mark.parametrize(
    ("cores", "taken", "at_once", "mine"),
    [
        (16, [], 1, 16),
        (16, [16], 1, 8),  # the first one keeps what it got
        (16, [16, 8], 1, 5),
        (16, [8], 1, 8),
        (16, [1, 1, 2], 1, 12),  # small jobs leave the rest free
        (16, [], 4, 4),  # the cells of a sweep
        (16, [8], 4, 3),
        (16, [4], 4, 3),
        (2, [2, 1, 1, 1], 1, 1),
        (2, [], 64, 1),
        (1, [99999], 1, 1),
    ],
)
def test_a_run_gets_its_equal_share_or_what_is_free(cores: int, taken: list[int], at_once: int, mine: int) -> None:
    assert share_cores(cores, taken, at_once) == mine


def test_runs_that_are_under_way_without_gpus_count_with_the_threads_of_their_plan(tmp_path: Path) -> None:
    def add(run_id: str, state: str, host: str = "box", **spec: object) -> None:
        runs.insert(database, run_id=run_id, name="r", host=host, task="sft", experiment=None, spec=dict(spec))
        runs.record(database, run_id, Verdict(state, None, None, 1, 1), observed_at=1.0)

    def job(threads: object) -> dict[str, object]:
        return {"env": {"OMP_NUM_THREADS": threads}}

    with Database(tmp_path / "store.db") as database:
        add("a-1", "running", processes=2, gpus=0, job=job("4"))
        add("b-1", "submitted", processes=1, job=job("3"))
        add("c-1", "running", processes=3, job={"env": {}})
        add("d-1", "running", processes=None, job=job("9" * 400))
        add("e-1", "running", processes="x", job=[1])
        add("gpus-1", "running", processes=2, gpus=2, job=job("4"))
        add("ended-1", "succeeded", processes=2, job=job("4"))
        add("mine-1", "running", processes=2, job=job("4"))
        add("far-1", "running", host="other", processes=2, job=job("4"))
        for state, name in (("running", "s-001"), ("submitted", "s-002")):
            add(name, state, processes=1, job=job("2"), sweep={"id": "s", "cell": 1})
        found = read_cores_taken(database, "box", without="mine-1", sweep=None)
        assert {each.run_id: each.cores for each in found} == {
            "a-1": 8, "b-1": 3, "c-1": 3, "d-1": 1, "e-1": 1, "s-001": 2,
        }  # fmt: skip
        without = read_cores_taken(database, "box", without="mine-1", sweep="s")
        assert {each.run_id for each in found} - {each.run_id for each in without} == {"s-001"}
