"""Runs that compute on a host's cores side by side share them."""

from __future__ import annotations

import json
import os
from typing import Any

from armada.store import runs
from armada.store.database import Database
from armada.verdicts.states import Verdict
from tests.conftest import Armada

CORES = os.cpu_count() or 1


def test_the_plan_shares_the_cores_with_runs_that_are_there_and_not_with_those_that_are_gone(armada: Armada) -> None:
    (armada.folder / "rows.jsonl").write_text(json.dumps({"text": "a row of text"}) + "\n")
    experiment: dict[str, Any] = {
        "name": "x", "task": "sft", "model": {"tiny": {}}, "data": {"train": [{"path": "rows.jsonl"}]},
        "train": {"max_steps": 1, "global_batch_size": 1},
    }  # fmt: skip
    file = armada.write("x.yaml", json.dumps(experiment))

    def threads() -> tuple[int, list[str]]:
        plan = armada.json("launch", "--host", "local", file, "--dry-run")
        said = [check["message"] for check in plan["checks"] if check["code"] == "ARM011"]
        return int(plan["spec"]["job"]["env"]["OMP_NUM_THREADS"]), said

    alone, said = threads()
    assert (alone, said) == (CORES, [f"{CORES} cores"])
    spec = {"processes": CORES, "job": {"env": {"OMP_NUM_THREADS": "1"}}}
    with Database(armada.folder / "home" / "state" / "armada.db") as database:
        runs.insert(database, run_id="gone-aaaaaa", name="gone", host="local", task="sft", experiment=None, spec=spec)
        runs.record(database, "gone-aaaaaa", Verdict("running", None, None, 1, 1), observed_at=1.0)
    assert threads()[0] == CORES, "the host was asked, and has no such run"
    running = armada.json("launch", "--host", "local", armada.command("sleep", "1000"))["run_id"]
    shared, said = threads()
    assert shared == max(1, CORES - 1)
    if shared < CORES:
        assert said[0].startswith(f"{CORES} cores, shared with other runs: {shared} thread")
    armada.run("stop", running, "--grace", "0")
    assert threads()[0] == CORES
