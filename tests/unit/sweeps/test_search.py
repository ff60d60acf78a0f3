"""Which cells a search tries next, told recorded trials: bookkeeping, not luck."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from armada.config.sweep import SearchCells
from armada.errors import UsageError
from armada.store.sweeps import SweepRecord
from armada.sweeps.cells import Words, read_draft
from armada.sweeps.search import (
    Trial,
    first_cells,
    free_places,
    load_optuna,
    propose,
    refuse_small_space,
    search_in,
    why_give_up,
)
from armada.sweeps.searched import search_of as recorded_search
from armada.sweeps.searched import settings_for

SPACE: dict[str, Any] = {
    "train.learning_rate": {"min": 1e-6, "max": 1e-4, "scale": "log"},
    "train.seed": {"min": 1, "max": 9},
    "train.optimizer": ["adamw", None, True, 1, [1, 2]],
    "env.RATE": {"min": 0.5, "max": 2.5, "text": True},
}


def search_of(trials: int = 20, space: dict[str, Any] | None = None, seed: int = 0) -> SearchCells:
    return SearchCells.model_validate({"trials": trials, "space": space or SPACE, "seed": seed})


def story(count: int) -> list[Trial]:
    """What a search recorded: every fourth trial failed, the last one is under way."""
    trials: list[Trial] = []
    for number in range(1, count + 1):
        (values,) = propose(search_of(), "min", trials, number, 1)
        state = "pending" if number == count else "failed" if number % 4 == 0 else "done"
        value = float(values["train.seed"]) if state == "done" else None
        trials.append(Trial(number, values, state, value))  # type: ignore[arg-type]  # one of the three words
    return trials


def test_the_same_trials_give_the_same_next_ones() -> None:
    told = story(12)
    again = propose(search_of(), "min", told, 13, 3)
    assert again == propose(search_of(), "min", told, 13, 3)
    assert again != propose(search_of(seed=1), "min", told, 13, 3)
    assert again[:1] == propose(search_of(), "min", told, 13, 1)


def test_values_are_of_the_space_and_of_its_types() -> None:
    for trial in story(12):
        values = trial.values
        assert 1e-6 <= values["train.learning_rate"] <= 1e-4
        assert isinstance(values["train.seed"], int)
        assert values["train.optimizer"] in ("adamw", None, True, 1, [1, 2])
        assert isinstance(values["env.RATE"], str)
        assert 0.5 <= float(values["env.RATE"]) <= 2.5


def test_results_change_what_is_tried_next_and_failures_count_for_nothing() -> None:
    told = story(16)
    worst = [Trial(each.number, each.values, each.state, -(each.value or 0.0)) for each in told]
    assert propose(search_of(), "min", told, 17, 4) != propose(search_of(), "min", worst, 17, 4)
    assert propose(search_of(), "max", worst, 17, 4) == propose(search_of(), "min", told, 17, 4)


def test_no_combination_is_tried_twice_and_none_is_left_out() -> None:
    small = search_of(6, {"env.A": ["x", "y", "z"], "env.N": {"min": 1, "max": 2}})
    found = propose(small, "min", (), 1, 10)
    assert len({(each["env.A"], each["env.N"]) for each in found}) == len(found) == 6
    assert propose(small, "min", [Trial(1 + n, each, "done", 1.0) for n, each in enumerate(found)], 7, 1) == []


def test_trials_of_another_space_are_left_out() -> None:
    odd: list[dict[str, Any]] = [{}, {"train.seed": 3}, {**story(1)[0].values, "train.seed": 99}]
    trials = [Trial(number + 1, values, "done", 1.0) for number, values in enumerate(odd)]
    assert propose(search_of(), "min", trials, 4, 1) == propose(search_of(), "min", (), 4, 1)


@pytest.mark.parametrize(
    "interval",
    [
        {"min": 0, "max": 2**62},
        {"min": 1e-300, "max": 1e299, "scale": "log"},
        {"min": -1e299, "max": 1e299},
        {"min": 1, "max": 2**40, "scale": "log"},
    ],
)
def test_huge_intervals_are_searched_as_well(interval: dict[str, Any]) -> None:
    search = search_of(12, {"env.X": interval})
    trials: list[Trial] = []
    for number in range(1, 9):
        (values,) = propose(search, "min", trials, number, 1)
        assert interval["min"] <= values["env.X"] <= interval["max"]
        trials.append(Trial(number, values, "done", 1e300 if number % 2 else -1e300))


def test_a_space_that_is_too_small_is_refused() -> None:
    with pytest.raises(UsageError, match="has 7 trials, but its space has only 6 combinations"):
        refuse_small_space(search_of(7, {"env.A": ["x", "y", "z"], "env.N": {"min": 1, "max": 2}}))
    refuse_small_space(search_of(10_000))


def test_a_search_gives_up_after_failures_in_a_row_only() -> None:
    failed = [Trial(number, {}, "failed", run_id=f"s-{number}", why="exit_code") for number in range(1, 8)]
    assert why_give_up(failed[:4], 2) is None
    assert why_give_up(failed[:5], 2) == "the last 5 trials failed, such as s-5: exit_code"
    assert why_give_up(failed[:5], 6) is None
    assert why_give_up([*failed[:4], Trial(5, {}, "pending"), failed[5]], 2) is not None
    assert why_give_up([Trial(1, {}, "done", 1.0), *failed[1:5]], 2) is None
    assert why_give_up(failed, 2, since=4) is None


def test_without_optuna_a_sentence_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(UsageError, match="there is no package optuna here") as told:
        load_optuna()
    assert told.value.hint is not None
    assert "armada-gpu[search]" in told.value.hint


@pytest.mark.parametrize(("parallel", "at_once"), [(None, 4), (3, 3), (2**30, 1000)])
def test_what_the_store_keeps_of_a_search_is_read_back(tmp_path: Path, parallel: int | None, at_once: int) -> None:
    file = tmp_path / "exp.yaml"
    file.write_text(json.dumps({"name": "x", "task": "command", "command": ["true"], "sweep": {"metric": "loss"}}))
    draft = read_draft(file, Words(space=["env.X={min: 1, max: 100000}", "env.Y=a,b"], search=5000, seed=3))
    search = search_in(draft, parallel)
    assert search is not None
    assert (search.at_once, search.seed) == (at_once, 3)
    kept = json.loads(json.dumps({"sweep": {"metric": "loss"}, **settings_for(draft, search)}))
    found = recorded_search(SweepRecord("x", "x", str(file), None, kept, "started", None, 0.0))
    assert found is not None
    assert found.cells == search
    assert found.experiment == {"name": "x", "task": "command", "command": ["true"]}


def test_the_first_cells_fit_their_settings(tmp_path: Path) -> None:
    file = tmp_path / "exp.yaml"
    file.write_text(json.dumps({"name": "x", "task": "command", "command": ["true"], "sweep": {"metric": "loss"}}))
    draft = read_draft(file, Words(space=["env.X={min: 1, max: 9}", "stop_grace_s={min: 1, max: 9}"], search=3))
    search = search_in(draft, None)
    assert search is not None
    cells = first_cells(draft, search)
    assert [cell.number for cell in cells] == [1, 2, 3]
    assert [cell.experiment.env["X"] for cell in cells] == [str(cell.values["env.X"]) for cell in cells]
    assert all(isinstance(cell.values["stop_grace_s"], float) for cell in cells)


@pytest.mark.parametrize("told", [None, 3, {}, {"trials": "x", "experiment": {}}, {"trials": 3, "experiment": []}])
def test_a_search_that_cannot_be_read_is_none(told: object) -> None:
    assert recorded_search(SweepRecord("x", "x", None, None, {"search": told}, "started", None, 0.0)) is None


def test_each_host_keeps_as_many_trials_as_it_had_at_first() -> None:
    first = ["a", "a", "b"]
    assert free_places("a", first, ["a", "b"], 3) == 1
    assert free_places("b", first, ["a", "b"], 3) == 0
    assert free_places("b", first, ["a", "a"], 3) == 1
    assert free_places("a", first, ["b"], 3) == 2  # the trial of a silent host stays under way
    assert free_places("c", first, [], 3) == 0
    assert free_places("b", ["b"], [], 3) == 3  # those of `a` were removed
    assert free_places("b", ["b"], ["b", "b", "a"], 3) == 0
