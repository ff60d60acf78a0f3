"""Which value of several runs is called the best: that of the metric that the runs themselves name."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from armada.cli.sweep import _settings as recorded_settings
from armada.foundation.metric_goals import BestBy
from armada.store import sweeps
from armada.store.queries.facts import RunBest, read_bests
from armada.sweeps.cells import Words, read_draft
from armada.sweeps.goal import with_goal
from armada.tui import remembered
from armada.tui.arrangement import GROUPS
from armada.tui.best import DIFFERS, READING, Best, best_of
from armada.tui.reading import RunReader
from armada.tui.screens.compare import CompareScreen
from armada.tui.screens.compare_text import own_metric
from armada.tui.screens.run import RunScreen
from armada.tui.widgets.run_table import RunTable
from tests.tui.conftest import World, drive, lacks, screen, shows, styles, until
from tests.tui.test_runs_screen import rows

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
        settings={"sweep": {"metric": "zeal", "goal": "max"}},
    )
    found = read_bests(world.database, set(TWO))
    assert found == {
        "lr-aaaaaa": RunBest(BestBy("zeal", "max"), 0.75),
        "lr-bbbbbb": RunBest(BestBy("zeal", "max"), 0.625),
    }


def test_a_sweep_as_its_command_records_it_says_what_is_best(world: World, tmp_path: Path) -> None:
    swept(world, "accuracy", TWO)
    file = tmp_path / "exp.yaml"
    file.write_text("{name: x, task: command, command: [a], sweep: {grid: {env.X: [1, 2]}, metric: accuracy}}")
    draft = with_goal(read_draft(file, Words()))
    settings = recorded_settings(draft, Namespace(profile=None, overrides=[], gpus=None, space=[]), None)
    sweeps.insert(world.database, name="lr-x7", title="lr", experiment=None, launch_key="k", settings=settings)
    stated = BestBy("accuracy", "max")
    found = read_bests(world.database, set(TWO))
    assert found == {"lr-aaaaaa": RunBest(stated, 0.75), "lr-bbbbbb": RunBest(stated, 0.625)}


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


OVERFIT = {"ov-1aaaaa": [1.0, 0.875], "ov-2bbbbb": [1.25, 1.5], "ov-3ccccc": [0.75, 0.625], "ov-4ddddd": []}
"""The evaluation losses of a sweep in which the second cell has the lowest loss, and the last one has not begun."""


def overfit(world: World) -> None:
    for cell, (run_id, values) in enumerate(OVERFIT.items(), 1):
        spec_ = spec(sweep="ov-x7", cell=cell)
        state = "running" if values else "queued"
        world.run(run_id, name=run_id[:4], spec=spec_, state=state)
        if values:
            world.losses(run_id, [2.0, 0.25 if cell == 2 else 0.5])
            world.losses(run_id, values, name="eval_loss")
    settings = {"sweep": {"metric": "eval_loss", "goal": "min"}}
    sweeps.insert(world.database, name="ov-x7", title="ov", experiment=None, launch_key="k", settings=settings)


def row_of(seen: str, word: str) -> str:
    return " ".join(next(line for line in seen.splitlines() if word in line).split())


def cells_listed(pilot: Pilot[None]) -> list[str]:
    return [key for key in rows(pilot) if key.startswith("ov-")]


@pytest.mark.parametrize("locale", ["C.UTF-8", "C"])
def test_the_best_cell_of_a_sweep_is_marked_and_each_has_its_value_of_the_metric(
    world: World, monkeypatch: pytest.MonkeyPatch, locale: str
) -> None:
    monkeypatch.setenv("LC_ALL", locale)
    overfit(world)

    async def use(pilot: Pilot[None]) -> None:
        assert "0.625 eval_loss" in row_of(await shows(pilot, "ov-x7 (4 cells)", "eval_loss"), "ov-x7 (")
        await pilot.press("enter")
        seen = await shows(pilot, "ov-4", "0.625 best")
        assert "0.5 0.625 best" in row_of(seen, "ov-3")
        assert "0.25 1.25" in row_of(seen, "ov-2")
        assert seen.count(" best") == 1
        world.losses("ov-2bbbbb", [0.125], name="eval_loss")
        seen = await shows(pilot, "0.125 best")
        assert "0.625 best" not in seen

    drive(world.board(), use, (170, 40))


def test_cells_stand_in_the_order_of_their_metric_where_runs_stand_by_loss(world: World) -> None:
    overfit(world)
    world.run("alone-eeeeee")
    world.losses("alone-eeeeee", [0.375])

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "ov-x7 (4 cells)", "eval_loss", "alone-eeeeee")
        pilot.app.screen.query_one(RunTable).place("sweep:ov-x7:")
        await pilot.press("enter", *["s"] * 4)
        await shows(pilot, "by loss", "0.625 best")
        assert rows(pilot) == ["sweep:ov-x7:", "ov-3ccccc", "ov-1aaaaa", "ov-2bbbbb", "ov-4ddddd", "alone-eeeeee"]
        await pilot.press("S")
        await shows(pilot, "by loss reversed")
        assert cells_listed(pilot) == ["ov-4ddddd", "ov-2bbbbb", "ov-1aaaaa", "ov-3ccccc"]

    drive(world.board(), use, (170, 40))


async def swept_compare(pilot: Pilot[None]) -> CompareScreen:
    """Compare the cells of the sweep, from its row."""
    await shows(pilot, "ov-x7 (4 cells)", "eval_loss")
    pilot.app.screen.query_one(RunTable).place("sweep:ov-x7:")
    await pilot.press("c")
    await shows(pilot, "best: lowest eval_loss")
    view = pilot.app.screen
    assert isinstance(view, CompareScreen)
    await until(pilot, lambda: view.is_read and not view.reading)
    return view


def test_compare_of_a_sweep_takes_its_metric_and_begins_with_the_best_cell(world: World) -> None:
    overfit(world)

    async def use(pilot: Pilot[None]) -> None:
        view = await swept_compare(pilot)
        seen = await shows(pilot, "eval_loss against step", "ov-4")
        assert view.choices.metric == "eval_loss"
        assert view.run_ids == ["ov-3ccccc", "ov-1aaaaa", "ov-2bbbbb", "ov-4ddddd"], "what has no values is last"
        assert row_of(seen, "ov-3").startswith("│▸ a ↑ ov-3")
        assert [view.places[run_id] for run_id in view.run_ids] == [0, 1, 2, 3]
        await pilot.press("d")
        await shows(pilot, "armada diff ov-3ccccc ov-1aaaaa")
        await pilot.press("escape", "j", "j", "P")
        await until(pilot, lambda: view.run_ids[0] == "ov-2bbbbb")
        world.losses("ov-1aaaaa", [0.125], name="eval_loss")
        await shows(pilot, "0.125")
        assert view.run_ids[0] == "ov-2bbbbb", "the order stays while the screen is open"
        await pilot.press("1", "6")
        await until(pilot, lambda: pilot.app.screen is view)

    drive(world.board(), use, (170, 40))


def test_a_pinned_cell_is_what_the_others_are_compared_with(world: World) -> None:
    overfit(world)
    remembered.keep_pinned(world.home, ["ov-4ddddd"])

    async def use(pilot: Pilot[None]) -> None:
        view = await swept_compare(pilot)
        assert view.run_ids == ["ov-4ddddd", "ov-3ccccc", "ov-1aaaaa", "ov-2bbbbb"]

    drive(world.board(), use, (170, 40))


def test_letters_that_somebody_knows_stay_when_the_best_run_comes_first(world: World) -> None:
    overfit(world)

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "ov-x7 (4 cells)", "eval_loss")
        pilot.app.screen.query_one(RunTable).place("sweep:ov-x7:")
        await pilot.press("enter")
        await shows(pilot, "0.625 best")
        for run_id in ("ov-2bbbbb", "ov-1aaaaa"):
            pilot.app.screen.query_one(RunTable).place(run_id)
            await pilot.press("space")
        await pilot.press("c")
        two = pilot.app.screen
        assert isinstance(two, CompareScreen)
        await until(pilot, lambda: two.is_read and not two.reading)
        assert two.places == {"ov-1aaaaa": 0, "ov-2bbbbb": 1}
        await pilot.press("escape", "escape")
        view = await swept_compare(pilot)
        assert view.places == {"ov-1aaaaa": 0, "ov-2bbbbb": 1, "ov-3ccccc": 2, "ov-4ddddd": 3}
        assert view.run_ids[0] == "ov-3ccccc"

    drive(world.board(), use, (170, 40))


def test_where_the_metric_has_no_column_the_best_cell_has_the_sign_behind_its_name(world: World) -> None:
    overfit(world)

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "ov-x7", "0.625")
        await pilot.press("enter")
        seen = await shows(pilot, "ov-3 best")
        assert seen.count(" best") == 1
        await pilot.press("C", *"name,step", "enter")
        seen = await shows(pilot, "ov-3 best", "STEP")
        assert seen.count(" best") == 1

    drive(world.board(), use, (80, 24))


def test_the_best_run_of_a_group_is_marked_but_not_one_that_is_alone(world: World) -> None:
    for run_id, host, losses, evals in (
        ("one-aaaaaa", "box", [0.5], [0.75]),
        ("two-bbbbbb", "box", [0.25], [1.5]),
        ("six-cccccc", "other", [0.5, 0.25], []),
    ):
        world.run(run_id, host=host, spec=spec())
        world.losses(run_id, losses)
        world.losses(run_id, evals, name="eval_loss")

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "one-aaaaaa", "two-bbbbbb", "six-cccccc")
        await pilot.press(*"b" * GROUPS.index("host"))
        seen = await shows(pilot, "best eval_loss 0.75", "best loss 0.25", "0.75 best")
        assert "0.75 best" in row_of(seen, "one-aaaaaa")
        assert seen.count(" best") - seen.count("  best ") == 1, "beside the headings there is one"

    drive(world.board(), use, (170, 40))


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


def test_a_metric_that_was_picked_for_other_runs_is_not_kept_for_those_without_it(world: World) -> None:
    world.run("odd-aaaaaa")
    world.run("odd-bbbbbb")
    world.run("usual-cccccc")
    for run_id, name in (("odd-aaaaaa", "speed"), ("odd-bbbbbb", "speed"), ("usual-cccccc", "eval_loss")):
        world.losses(run_id, [0.5, 0.25], name=name)
        world.losses(run_id, [0.5, 0.25])

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "3 of 3 runs")
        first = pilot.app.screen
        first.query_one(RunTable).marked = {"odd-aaaaaa", "odd-bbbbbb"}
        await pilot.press("c")
        await shows(pilot, "2 runs", "loss against step")
        compare = pilot.app.screen
        assert isinstance(compare, CompareScreen)
        await until(pilot, lambda: "speed" in compare.known)
        await pilot.press("M")
        await shows(pilot, "speed against step")
        await pilot.press("escape")
        await until(pilot, lambda: pilot.app.screen is first)
        first.query_one(RunTable).marked = {"usual-cccccc"}
        await pilot.press("c")
        await shows(pilot, "eval_loss against step")
        await pilot.press("escape")
        await until(pilot, lambda: pilot.app.screen is first)
        first.query_one(RunTable).marked = {"odd-aaaaaa"}
        await pilot.press("c")
        await shows(pilot, "loss against step")

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
    assert own_metric([by, by], [("loss",), ("eval_wer",)]) == "eval_wer", "a cell may have no evaluation yet"
    assert own_metric([by, by], [("loss",), ("eval_loss",)]) == "loss"
    assert own_metric([by, by], [(), ()]) == "eval_wer"
    assert own_metric([by, by, by], [("loss", "eval_wer"), (), ("loss",)]) == "eval_wer"
    assert own_metric([by, none], [("loss", "eval_loss"), ("eval_loss",)]) == "eval_loss"
    assert own_metric([none, none], [("loss", "eval_loss"), ("loss",)]) == "loss"
    assert own_metric([none, none], [("loss", "eval_loss"), ()]) == "eval_loss", "what has not begun changes nothing"
    assert own_metric([], []) == "loss"
    assert own_metric([none], [()]) == "loss"
    assert own_metric([none, none], [("reward", "kl"), ("kl",)]) == "kl", "an empty chart helps nobody"
    assert own_metric([none, none], [("num_tokens", "kl", "reward")] * 2) == "reward"
    assert own_metric([none, none], [("reward",), ("loss",), ("reward",)]) == "loss"
