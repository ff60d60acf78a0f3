"""Which value of several runs is called the best: that of the metric that the runs themselves name."""

from __future__ import annotations

from typing import Any

import pytest
from textual.pilot import Pilot

from armada.foundation.metric_goals import BestBy
from armada.store import sweeps
from armada.store.queries.facts import RunBest, read_bests
from armada.tui.arrangement import GROUPS
from armada.tui.best import DIFFERS, READING, Best, best_of
from armada.tui.reading import RunReader
from armada.tui.screens.compare import CompareScreen
from armada.tui.screens.compare_text import own_metric
from armada.tui.screens.run import RunScreen
from tests.tui.conftest import World, drive, lacks, screen, shows, styles, until

ACCURACY = {"name": "eval_accuracy", "goal": "max"}


def spec(best: dict[str, str] | None = None, sweep: str | None = None, cell: int = 1) -> dict[str, Any]:
    training = {"train": {"best_metric": best}} if best is not None else {}
    told: dict[str, Any] = {"job": {"argv": ["true"]}, "experiment": {}, "training": training}
    return told | ({"sweep": {"id": sweep, "cell": cell}} if sweep is not None else {})


def swept(world: World, metric: str, cells: dict[str, list[float]], best: dict[str, str] | None = None) -> None:
    """A sweep whose cells have values of a metric, and losses that say the opposite."""
    for cell, (run_id, values) in enumerate(cells.items(), 1):
        world.run(run_id, spec=spec(best, "lr-x7", cell))
        world.losses(run_id, [9.0 - value for value in values])
        if metric != "loss":
            world.losses(run_id, values, name=metric)


TWO = {"lr-aaaaaa": [0.5, 0.75], "lr-bbbbbb": [0.625, 0.25]}


def test_a_sweep_shows_the_best_of_the_metric_that_its_runs_name(world: World) -> None:
    swept(world, "eval_accuracy", TWO, ACCURACY)

    async def use(pilot: Pilot[None]) -> None:
        line = next(each for each in (await shows(pilot, "eval_accu…")).splitlines() if "lr-x7" in each)
        assert "0.75" in line
        world.losses("lr-bbbbbb", [0.875], name="eval_accuracy")
        await shows(pilot, "0.875 ")

    drive(world.board(), use, (170, 40))


def test_without_a_choice_it_is_the_evaluation_loss_and_without_that_the_newest_loss(world: World) -> None:
    swept(world, "eval_loss", TWO)
    world.run("alone-cccccc", spec=spec(sweep="other-x8"))
    world.losses("alone-cccccc", [1.5, 2.5])

    async def use(pilot: Pilot[None]) -> None:
        seen = await shows(pilot, "eval_loss", "lr-x7", "other-x8")
        assert "0.25" in next(line for line in seen.splitlines() if "lr-x7" in line)
        other = next(line for line in seen.splitlines() if "other-x8" in line)
        assert "2.5 loss" in " ".join(other.split())

    drive(world.board(), use, (170, 40))


def test_a_sweep_that_names_a_metric_counts_before_its_runs(world: World) -> None:
    swept(world, "zeal", TWO, ACCURACY)
    sweeps.insert(
        world.database,
        name="lr-x7",
        title="lr",
        experiment=None,
        launch_key="k",
        settings={"metric": "zeal", "goal": "max"},
    )
    found = read_bests(world.database, set(TWO))
    assert found == {
        "lr-aaaaaa": RunBest(BestBy("zeal", "max"), 0.75),
        "lr-bbbbbb": RunBest(BestBy("zeal", "max"), 0.625),
    }


def test_a_group_of_runs_with_different_metrics_says_so(world: World) -> None:
    swept(world, "eval_accuracy", TWO, ACCURACY)
    world.run("loss-cccccc", host="other", spec=spec())
    world.losses("loss-cccccc", [0.5])

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "lr-x7", "loss-cccccc")
        await pilot.press(*"b" * GROUPS.index("host"))
        await shows(pilot, "box  2 runs: 2 running  best eval_accuracy 0.75", "other  1 run: 1 running  best loss 0.5")
        await pilot.press("b")
        await shows(pilot, "running  3 runs", "best: differs")
        await pilot.press("b")
        await lacks(pilot, "best: differs")

    drive(world.board(), use, (150, 40))


def test_a_value_that_is_no_loss_does_not_stand_under_loss_where_its_name_has_no_room(world: World) -> None:
    swept(world, "eval_accuracy", TWO, ACCURACY)

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "lr-x7", "LOSS", "0/2")
        await until(pilot, lambda: "… " not in screen(pilot).partition("0/2")[2].partition("│")[0])
        assert "0.75" not in screen(pilot)

    drive(world.board(), use, (80, 24))


BY_ACCURACY = BestBy("eval_accuracy", "max")


@pytest.mark.parametrize(
    ("bests", "best"),
    [
        ({}, READING),
        ({"a": RunBest(BY_ACCURACY, 0.5), "b": RunBest(BY_ACCURACY, 0.75)}, Best("eval_accuracy", 0.75)),
        ({"a": RunBest(BY_ACCURACY, None), "b": RunBest(BY_ACCURACY, None)}, None),
        ({"a": RunBest(BY_ACCURACY, 0.5), "b": RunBest(BestBy("eval_accuracy", "min"), 0.75)}, DIFFERS),
        ({"a": RunBest(BY_ACCURACY, 0.5), "b": RunBest(None, None)}, DIFFERS),
        ({"a": RunBest(BestBy(), 0.5), "b": RunBest(None, 0.25)}, Best("eval_loss", 0.25)),
        ({"a": RunBest(None, None), "b": RunBest(None, 0.25)}, Best("eval_loss", 0.25)),
        ({"a": RunBest(None, None), "b": RunBest(None, None)}, Best("loss", 1.0)),
        ({"a": RunBest(BestBy("x\x1b[2J[red]", "max"), 2.0), "b": RunBest(BestBy("x\x1b[2J[red]", "max"), 1.0)}, None),
    ],
)
def test_what_is_best_of_two_runs(world: World, bests: dict[str, RunBest], best: Best | None) -> None:
    for run_id, loss in (("a", 1.0), ("b", 2.0)):
        world.run(run_id)
        world.losses(run_id, [loss])
    found = best_of(RunReader(world.database).read({}), bests)
    if found is not None and found.metric.startswith("x"):
        assert "\x1b" not in found.words
    else:
        assert found == best


def test_compare_begins_with_the_metric_of_the_runs_and_names_it(world: World) -> None:
    swept(world, "eval_accuracy", TWO, ACCURACY)

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "lr-x7")
        await pilot.press("enter")
        await pilot.press("a", "c")
        seen = await shows(pilot, "eval_accuracy against step", "Runs · best: highest eval_accuracy", "0.75")
        assert "0.75" in next(line for line in seen.splitlines() if "lr-aaaaaa" in line and "running" in line)
        view = pilot.app.screen
        assert isinstance(view, CompareScreen)
        await pilot.press("m")
        await until(pilot, lambda: view.choices.metric != "eval_accuracy")
        await pilot.press("M", "o")
        await shows(pilot, "highest eval_accuracy against cost")

    drive(world.board(), use, (150, 40))


@pytest.mark.parametrize("goal", ["max", "min"])
def test_beside_a_chart_the_better_end_is_the_one_that_the_run_says(world: World, goal: str) -> None:
    world.run("demo-aaaaaa", spec=spec({"name": "zeal", "goal": goal}))
    world.losses("demo-aaaaaa", [0.5, 0.75], name="zeal")

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        await pilot.press("enter", "c")
        await shows(pilot, "(1 of 2)")
        await pilot.press("m")
        await shows(pilot, "zeal (2 of 2)", "lowest    0.5", "highest   0.75")
        ends = (("lowest   ", "0.5"), ("highest   ", "0.75"))
        low, high = (styles(pilot, words)[value].color for words, value in ends)
        plain, lit = (low, high) if goal == "max" else (high, low)
        view = pilot.app.screen
        assert isinstance(view, RunScreen)
        assert lit == view.wall.figures.get_component_rich_style("panel--accent").color != plain

    drive(world.board(), use)


def test_the_metric_that_runs_are_compared_by_is_one_that_they_have() -> None:
    by, none = BestBy("eval_wer", "min"), None
    assert own_metric([by, by], [("loss", "eval_wer"), ("eval_wer",)]) == "eval_wer"
    assert own_metric([by, by], [("loss",), ("eval_wer",)]) == "loss"
    assert own_metric([by, none], [("loss", "eval_loss"), ("eval_loss",)]) == "eval_loss"
    assert own_metric([none, none], [("loss", "eval_loss"), ("loss",)]) == "loss"
    assert own_metric([], []) == "loss"
    assert own_metric([none], [()]) == "loss"
    assert own_metric([none, none], [("reward", "kl"), ("kl",)]) == "kl", "an empty chart helps nobody"
    assert own_metric([none, none], [("num_tokens", "kl", "reward")] * 2) == "reward"
    assert own_metric([none, none], [("reward",), ("loss",), ("reward",)]) == "loss"
