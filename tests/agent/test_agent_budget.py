"""Budgets by the supervisor's own clock: a home that is away cannot overspend."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from armada_agent.paths import RunPaths
from armada_agent.records.spent import Spent
from armada_agent.supervisor.budget import Budget

from tests.agent.batch_worker import RESUME, SAVING, Worker, told
from tests.waiting import WITHIN_S, eventually

HOUR = 3600.0


class Clock:
    """A clock that tests set."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def budget(folder: Path, clock: Clock, told: Any, grace_s: float = 60.0, submission: int = 1) -> Budget:
    (folder / "runs/b-1").mkdir(parents=True, exist_ok=True)
    return Budget(RunPaths(str(folder), "b-1"), {"budget": told, "stop_grace_s": grace_s}, submission, clock)


def spent(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "runs/b-1/spent.json").read_text())
    return found


def ours() -> bool:
    return True


def test_it_ends_so_that_the_grace_period_is_paid_too(tmp_path: Path) -> None:
    clock = Clock()
    found = budget(tmp_path, clock, {"seconds": HOUR, "said": "20 EUR"})
    found.start()
    clock.now += HOUR - 61
    assert not found.is_reached
    clock.now += 1
    assert found.is_reached
    ending = found.ending("b-1")
    assert (ending.state, ending.reason) == ("failed", "budget")
    assert (
        ending.message
        == "its budget of 20 EUR is spent: it ran for 59 m; `armada resume b-1` grants the same once more"
    )


def test_attempts_count_together_and_a_resume_after_the_end_gets_the_same_again(tmp_path: Path) -> None:
    clock = Clock()
    for attempt in (1, 2):
        found = budget(tmp_path, clock, {"seconds": HOUR})
        found.start()
        clock.now += 1700
        assert not found.is_reached
        found.note(ours)
        assert spent(tmp_path)["spent_s"] == 1700.0 * attempt
    clock.now += 140
    assert found.is_reached
    found.note(ours, at_once=True)
    requeued = budget(tmp_path, clock, {"seconds": HOUR})
    requeued.start()
    assert requeued.is_reached
    again = budget(tmp_path, clock, {"seconds": HOUR}, submission=2)
    again.start()
    assert not again.is_reached
    clock.now += HOUR
    assert again.is_reached


def test_a_supervisor_that_is_killed_loses_seconds_and_a_foreign_folder_is_left_alone(tmp_path: Path) -> None:
    clock = Clock()
    found = budget(tmp_path, clock, {"seconds": HOUR})
    found.start()
    found.note(lambda: False)
    assert not (tmp_path / "runs/b-1/spent.json").exists()
    found.note(ours)
    clock.now += 9
    found.note(ours)
    assert spent(tmp_path)["spent_s"] == 0.0
    clock.now += 2
    found.note(ours)
    assert spent(tmp_path)["spent_s"] == 11.0


@pytest.mark.parametrize(("used_s", "is_over"), [(3500.0, False), (3545.0, True), (3700.0, True)])
@pytest.mark.parametrize("submission", [1, 3])
def test_nobody_goes_on_by_itself_once_the_budget_is_spent(
    tmp_path: Path, used_s: float, is_over: bool, submission: int
) -> None:
    """A host that restarts while the job saves at its budget's end grants nothing: only a person does."""
    clock = Clock()
    found = budget(tmp_path, clock, {"seconds": HOUR}, submission=submission)
    found.start()
    clock.now += used_s
    found.note(ours, at_once=True)
    spec = {"budget": {"seconds": HOUR}, "stop_grace_s": 60.0}
    left = Spent(RunPaths(str(tmp_path), "b-1"), spec)
    assert left.is_over is is_over
    assert (left.granted_s(submission), left.granted_s(submission + 1)) == (HOUR, 2 * HOUR if is_over else HOUR)


@pytest.mark.parametrize("each_s", [HOUR, 0.3, 1e6 / 7, 86399.9])
@pytest.mark.parametrize("times", [1, 2, 3, 7])
@pytest.mark.parametrize("moved_s", [-1e-3, -1e-9, -math.ulp(1e6), 0.0, math.ulp(1e6), 1e-9])
def test_a_grant_is_doubled_where_the_budget_is_spent_and_nowhere_else(
    tmp_path: Path, each_s: float, times: int, moved_s: float
) -> None:
    paths = RunPaths(str(tmp_path), "b-1")
    Path(paths.spent).parent.mkdir(parents=True)
    spec = {"budget": {"seconds": each_s}, "stop_grace_s": each_s / 10}
    used_s = times * each_s - each_s / 10 + moved_s
    record = {"spent_s": used_s, "submission": 1, "allowed_s": times * each_s}
    Path(paths.spent).write_text(json.dumps(record))
    left = Spent(paths, spec)
    granted_s = left.granted_s(2)
    assert granted_s == pytest.approx((times + left.is_over) * each_s)
    assert used_s < granted_s - left.reserve_s  # it can run


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "\0",
        '{"spent_s": -5}',
        '{"spent_s": "1e9"}',
        '{"spent_s": true}',
        '{"spent_s": 1e300}',
        '{"submission": 1, "allowed_s": 1e8}',
    ],
)
def test_what_a_job_writes_there_gives_it_no_more_than_the_budget(tmp_path: Path, text: str) -> None:
    clock = Clock()
    found = budget(tmp_path, clock, {"seconds": HOUR})
    (tmp_path / "runs/b-1/spent.json").write_text(text)
    found.start()
    assert not found.is_reached
    clock.now += HOUR
    assert found.is_reached


@pytest.mark.parametrize(
    "told", [None, {}, 5, {"seconds": None}, {"seconds": "3"}, {"seconds": True}, {"seconds": -1}, {"seconds": 1e300}]
)
def test_a_run_without_a_budget_is_never_stopped(tmp_path: Path, told: Any) -> None:
    clock = Clock()
    found = budget(tmp_path, clock, told)
    found.start()
    clock.now += 1e8
    found.note(ours, at_once=True)
    assert not found.is_reached
    assert not (tmp_path / "runs/b-1/spent.json").exists()


@pytest.mark.parametrize("kind", ["direct", "slurm", "htcondor"])
def test_a_spent_budget_stops_the_job_which_saves_and_nothing_puts_it_back(
    worker: Callable[[str], Worker], kind: str
) -> None:
    there = worker(kind)
    # Its time is up from the beginning, so that the test waits for nothing; the job is stopped once it has saved.
    script = SAVING.replace("trap 'exit 85' TERM", "trap 'until [ -e up-1 ]; do sleep 0.05; done; exit 85' TERM")
    there.hand_over("b-2", script, watch=RESUME, budget={"seconds": 0.001, "said": "20 EUR"})
    supervisor = there.begin("b-2")
    supervisor.wait(WITHIN_S)
    eventually((there.host.folder("b-2") / "attempts/1/exit.json").exists)
    eventually(lambda: told(there, "b-2")[0] == "failed")
    assert told(there, "b-2") == ("failed", "budget")
    message = there.read("b-2", "state.json")["message"]
    assert message.startswith("its budget of 20 EUR is spent: it ran for ")
    assert there.exit_of("b-2", 1)["reason"] == "budget"
    assert there.read("b-2", "spent.json")["spent_s"] > 0
    assert there.calls == []


def test_a_person_who_stops_the_run_meanwhile_is_believed(worker: Callable[[str], Worker]) -> None:
    there = worker("slurm")
    there.hand_over("b-3", SAVING, watch=RESUME, budget={"seconds": 0.001})
    (there.host.folder("b-3") / "stop.json").write_text(json.dumps({"grace_s": 5.0, "submission": 1, "time": 1.0}))
    there.begin("b-3").wait(WITHIN_S)
    assert told(there, "b-3") == ("cancelled", "killed_by_user")


@pytest.mark.parametrize("kind", ["slurm", "htcondor"])
def test_a_stop_because_the_hosts_budget_is_spent_is_no_persons_stop(
    worker: Callable[[str], Worker], kind: str
) -> None:
    there = worker(kind)
    there.hand_over("b-4", SAVING, watch=RESUME)
    supervisor = there.begin("b-4")
    eventually((there.host.folder("b-4") / "work/up-1").exists)
    why = "box has cost 101.00 EUR, and its budget is 100.00 EUR"
    request = {"grace_s": 60.0, "submission": 1, "time": 1.0, "budget": why}
    (there.host.folder("b-4") / "stop.json").write_text(json.dumps(request))
    supervisor.wait(WITHIN_S)
    assert told(there, "b-4") == ("failed", "budget")
    assert there.read("b-4", "state.json")["message"] == why
    assert there.exit_of("b-4", 1)["exit_code"] == 85


@pytest.mark.parametrize("budget", [None, "", 5, ["x"]])
def test_any_other_stop_is_a_persons(worker: Callable[[str], Worker], budget: Any) -> None:
    there = worker("slurm")
    there.hand_over("b-5", SAVING, watch=RESUME)
    request = {"grace_s": 5.0, "submission": 1, "time": 1.0, "budget": budget}
    (there.host.folder("b-5") / "stop.json").write_text(json.dumps(request))
    there.begin("b-5").wait(WITHIN_S)
    assert told(there, "b-5") == ("cancelled", "killed_by_user")
