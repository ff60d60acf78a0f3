"""Which cells of a sweep are pruned: as Optuna's SuccessiveHalvingPruner, judged once at each step, whoever looks."""

from __future__ import annotations

import dataclasses
import math
import random
from pathlib import Path
from typing import Any

import pytest

from armada.config.sweep import PruneRule, SearchCells
from armada.errors import ConfigError
from armada.store import metrics, runs, sweeps
from armada.store.database import Database
from armada.store.sweeps import SweepRecord
from armada.sweeps.cells import Words, read_draft
from armada.sweeps.counts import count_states
from armada.sweeps.goal import goal_words
from armada.sweeps.pruning import judge, prune, pruning_of, settings_for_pruning, without_metric, words_of
from armada.sweeps.search import Trial, load_optuna, propose, why_give_up
from armada.sweeps.searched import search_standing, trials_of
from tests.unit.sweeps.test_rules import run_of

NAN = float("nan")
RULE = PruneRule(at=(100, 200, 400), reduction=3)


@pytest.fixture
def database(tmp_path: Path) -> Database:
    return Database(tmp_path / "armada.db")


def a_sweep(
    database: Database, curves: dict[int, list[tuple[int, float]]], host: str = "a", **more: Any
) -> SweepRecord:
    """A sweep in the store, with running cells and what they have told."""
    if not database.connection.execute("SELECT 1 FROM sweeps").fetchone():
        settings = {"sweep": {"metric": "loss", **more.pop("sweep", {})}, **settings_for_pruning(RULE), **more}
        sweeps.insert(database, name="grid", title="grid", experiment=None, launch_key="k", settings=settings)
        sweeps.set_state(database, "grid", "started")
    for cell, points in curves.items():
        run = run_of(database, cell, host)
        runs.set_state(database, run.run_id, "running")
        tell(database, run.run_id, points)
    return sweeps.find(database, "grid")


def tell(database: Database, run_id: str, points: list[tuple[int, float]]) -> None:
    lines = [{"kind": "train", "step": step, "time": 1.0, "loss": value} for step, value in points]
    at = database.connection.execute("SELECT metrics_offset FROM runs WHERE run_id = ?", (run_id,)).fetchone()[0]
    assert metrics.record_metrics(database, run_id, lines, offset=at, next_offset=at + 1)


def pruned(database: Database, host: str = "a") -> dict[str, str]:
    found = prune(database, sweeps.find(database, "grid"), host)
    assert {each.reason for each in found.values()} <= {"pruned"}
    return {run_id.removeprefix("grid-"): each.message for run_id, each in found.items()}


@pytest.mark.parametrize("goal", ["min", "max"])
@pytest.mark.parametrize("seed", range(5))
def test_cells_that_come_one_after_the_other_are_judged_as_optuna_does(goal: str, seed: int) -> None:
    optuna = load_optuna()
    pruner = optuna.pruners.SuccessiveHalvingPruner(min_resource=1, reduction_factor=3)
    study = optuna.create_study(direction="minimize" if goal == "min" else "maximize", pruner=pruner)
    rule, dice = PruneRule(at=(1, 3, 9), reduction=3), random.Random(seed)
    curves: dict[str, list[tuple[int, float | None]]] = {}
    ends = set()
    for number in range(30):
        trial, own = study.ask(), curves.setdefault(str(number), [])
        passed, is_over = 0, False
        for step in (1, 3, 9):
            value = float(dice.randrange(20))
            own.append((step, value))
            trial.report(value, step)
            found = judge(rule, "loss", goal, curves, str(number), passed)
            is_over, passed = found.why is not None, found.passed
            assert is_over == trial.should_prune()
            if is_over:
                break
        ends.add(own[-1][0])
        states = optuna.trial.TrialState
        study.tell(trial, state=states.PRUNED) if is_over else study.tell(trial, value)
    assert ends == {1, 3, 9}


def test_cells_below_the_best_third_are_pruned_with_a_sentence(database: Database) -> None:
    a_sweep(database, {cell: [(100, cell / 10)] for cell in range(1, 7)})
    found = pruned(database)
    assert sorted(found) == ["a-003", "a-004", "a-005", "a-006"]
    assert found["a-005"] == "pruned at step 100: loss 0.5, best third of 6 cells is below 0.2"


def test_a_cell_is_judged_once_at_each_step_and_what_was_decided_stays(database: Database) -> None:
    a_sweep(database, {1: [(100, 0.9)]})
    assert pruned(database) == {}  # the first that comes
    a_sweep(database, {2: [(100, 0.5)], 3: [(100, 0.7)]})
    assert pruned(database) == {"a-003": "pruned at step 100: loss 0.7, the best of 3 cells has 0.5"}
    tell(database, "grid-a-001", [(200, 0.8)])
    tell(database, "grid-a-003", [(200, 0.1)])  # until it ends
    assert sorted(pruned(database)) == ["a-001", "a-003"]
    runs.set_state(database, "grid-a-003", "cancelled", reason="pruned")
    assert sorted(pruned(database)) == ["a-001"]


def test_a_step_without_a_line_is_compared_at_the_next_one(database: Database) -> None:
    a_sweep(database, {1: [(90, 0.1), (110, 0.2)], 2: [(99, 0.0)], 3: [(150, 0.3)]})
    assert pruned(database) == {"a-003": "pruned at step 100: loss 0.3 (step 150), the best of 2 cells has 0.2"}


def test_nan_is_worse_than_any_number_and_alone_it_decides_nothing(database: Database) -> None:
    a_sweep(database, {1: [(100, NAN)], 2: [(100, math.inf)]})
    assert pruned(database) == {}
    a_sweep(database, {3: [(100, 1e300)]})
    found = pruned(database)
    assert sorted(found) == ["a-001", "a-002"]
    assert found["a-001"] == "pruned at step 100: loss is NaN, the best of 3 cells has 1e+300"
    assert pruned(database) == found  # what is kept is plain JSON, which a look reads again


def test_a_large_value_is_good_with_goal_max(database: Database) -> None:
    a_sweep(database, {cell: [(100, cell / 10)] for cell in range(1, 7)}, sweep={"goal": "max"})
    found = pruned(database)
    assert sorted(found) == ["a-001", "a-002", "a-003", "a-004"]
    assert found["a-001"] == "pruned at step 100: loss 0.1, best third of 6 cells is above 0.5"


def test_cells_of_a_host_that_is_not_asked_are_compared_with_and_not_judged(database: Database) -> None:
    a_sweep(database, {1: [(100, 0.1)], 2: [(100, 0.2)]})
    a_sweep(database, {3: [(100, 0.3)]}, host="b")
    assert sorted(pruned(database)) == ["a-002"]
    assert sorted(pruned(database, "b")) == ["b-003"]


def test_cells_that_wait_have_ended_or_were_resumed_are_left_alone(database: Database) -> None:
    a_sweep(database, {cell: [(100, cell / 10)] for cell in range(1, 5)})
    runs.set_state(database, "grid-a-003", "queued")
    runs.set_state(database, "grid-a-004", "succeeded")
    assert sorted(pruned(database)) == ["a-002"]
    with database.transaction() as connection:
        connection.execute("UPDATE runs SET submission = submission + 1 WHERE run_id = 'grid-a-002'")
    tell(database, "grid-a-002", [(200, 9.0)])
    assert pruned(database) == {}


def test_two_that_look_at_once_decide_each_cell_once(tmp_path: Path) -> None:
    first, second = Database(tmp_path / "armada.db"), Database(tmp_path / "armada.db")
    record = a_sweep(first, {1: [(100, 0.1)], 2: [(100, 0.2)], 3: [(100, 0.3)]})
    one = prune(first, record, "a")
    tell(second, "grid-a-002", [(100, 0.0)])  # that step was done again meanwhile
    assert prune(second, record, "a") == one  # it had read the sweep before the other decided
    kept = pruning_of(sweeps.find(first, "grid"))
    assert kept is not None
    assert sorted(kept.pruned) == ["grid-a-002", "grid-a-003"]


@pytest.mark.parametrize(
    "told",
    [None, 3, {}, {"at": []}, {"at": [2, 1]}, {"at": ["x"]}, {"at": [1], "reduction": 0}],
)
def test_what_a_newer_armada_wrote_prunes_nothing(told: Any) -> None:
    assert pruning_of(SweepRecord("grid", "grid", None, None, {"prune": told}, "started", None, 1.0)) is None


def test_damaged_decisions_count_as_none_and_unknown_keys_stay(database: Database) -> None:
    settings = {"sweep": {"metric": "loss"}, "prune": {"at": [100], "passed": {"x": "y"}, "pruned": {"x": 1}, "new": 5}}
    sweeps.insert(database, name="grid", title="grid", experiment=None, launch_key="k", settings=settings)
    a_sweep(database, {1: [(100, 0.1)], 2: [(100, 0.2)]})
    sweeps.set_state(database, "grid", "started")
    assert sorted(pruned(database)) == ["a-002"]
    assert sweeps.find(database, "grid").settings["prune"]["new"] == 5


def test_a_metric_that_never_comes_is_said_once_cells_are_past_the_first_step(database: Database) -> None:
    record = a_sweep(database, {1: [(50, 0.1)], 2: [(50, 0.2)]}, sweep={"metric": "eval_los"})
    assert without_metric(database, record) is None
    with database.transaction() as connection:
        connection.execute("UPDATE runs SET step = 120")
    said = "no cell is pruned: no cell has recorded eval_los by step 100; metrics there are: loss"
    assert without_metric(database, record) == said
    assert pruned(database) == {}


def test_a_pruned_trial_is_told_to_the_search_as_pruned(database: Database) -> None:
    search = SearchCells.model_validate({"trials": 9, "space": {"env.X": {"min": 0.0, "max": 9.0, "text": True}}})
    told = {**search.model_dump(mode="json"), "experiment": {}}
    a_sweep(database, {cell: [(100, cell / 10)] for cell in range(1, 4)}, search=told)
    assert sorted(pruned(database)) == ["a-002", "a-003"]
    runs.set_state(database, "grid-a-002", "cancelled", reason="pruned")
    runs.set_state(database, "grid-a-003", "cancelled", reason="killed_by_user")  # its supervisor was an older one's
    record = sweeps.find(database, "grid")
    trials = trials_of(database, record, 1e10)
    assert [(each.state, each.value, each.step) for each in trials[1:]] == [("pruned", 0.2, 100), ("pruned", 0.3, 100)]
    standing = search_standing(database, record, 1e10)
    assert standing is not None
    assert standing.words == "2 of 9 trials, 2 pruned; best loss 0.1"
    assert count_states(runs.of_sweep(database, "grid")) == "1 running · 1 pruned · 1 cancelled"


def test_pruned_trials_change_what_is_tried_next_and_are_no_failures() -> None:
    search = SearchCells.model_validate({"trials": 30, "space": {"env.X": {"min": 0.0, "max": 9.0}}})
    trials = [
        Trial(number, {"env.X": float(number % 9)}, "pruned", number / 10, "r", "", 100) for number in range(1, 21)
    ]
    assert why_give_up(trials, 4) is None
    failed = [dataclasses.replace(trial, state="failed") for trial in trials]
    assert propose(search, "min", trials, 21, 2) != propose(search, "min", failed, 21, 2)
    no_number = [dataclasses.replace(trial, value=None) for trial in trials]
    assert len(propose(search, "min", no_number, 21, 2)) == 2


@pytest.mark.parametrize(
    ("sweep", "said"),
    [
        ("{grid: {env.X: [1]}, prune: {at: [1, 2]}}", "needs `metric`"),
        ("{grid: {env.X: [1]}, metric: m, prune: {at: [2, 1]}}", "must ascend"),
        ("{grid: {env.X: [1]}, metric: m, prune: {at: [2, 2]}}", "must ascend"),
        ("{grid: {env.X: [1]}, metric: m, prune: {at: []}}", "prune.at"),
        ("{grid: {env.X: [1]}, metric: m, prune: {at: [0]}}", "prune.at"),
        ("{grid: {env.X: [1]}, metric: m, prune: {at: [.nan]}}", "prune.at"),
        ("{grid: {env.X: [1]}, metric: m, prune: {at: [5], reduction: 1}}", "reduction"),
        ("{grid: {env.X: [1]}, metric: m, prune: {steps: [5]}}", "`sweep.prune.at`"),
    ],
)
def test_a_rule_that_cannot_be_kept_is_refused(tmp_path: Path, sweep: str, said: str) -> None:
    path = tmp_path / "exp.yaml"
    path.write_text(f"name: a\ntask: command\ncommand: ['true']\nsweep: {sweep}\n")
    with pytest.raises(ConfigError) as raised:
        read_draft(path, Words())
    assert said in str(raised.value) + (raised.value.hint or "")


def test_steps_of_the_command_line_are_put_over_those_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "exp.yaml"
    path.write_text(
        "name: a\ntask: command\ncommand: ['true']\nsweep: {grid: {env.X: [1]}, metric: m, prune: {at: [7], reduction: 4}}\n"
    )
    sweep = read_draft(path, Words(prune=[10, 20])).sweep
    assert sweep.prune == PruneRule(at=(10, 20), reduction=4)


def test_the_rule_is_said_before_the_launch() -> None:
    assert (
        words_of(RULE, goal_words("min", "loss"))
        == "by the lowest loss at steps 100, 200, 400: the best third continues"
    )
    assert (
        words_of(PruneRule(at=(5,), reduction=7), goal_words("max", "a\x1b[1m"))
        == "by the highest a\N{REPLACEMENT CHARACTER}[1m at step 5: the best 1/7 continues"
    )
    assert words_of(PruneRule(at=tuple(range(1, 20))), "x").endswith("7, 8, …: the best third continues")
