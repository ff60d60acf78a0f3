"""The axis, panels, smoothing and scale of charts outlast a restart; whatever the file holds, the dashboard starts."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from textual.pilot import Pilot

from armada.tui import chart_choices, remembered, views
from armada.tui.chart_choices import ChartChoices
from armada.tui.remembered import Charted
from tests.tui.conftest import World, drive, shows, until


def chosen(choices: ChartChoices) -> Charted:
    return Charted(choices.against, choices.panels, choices.smoothing, choices.logarithmic)


def two_runs(world: World) -> None:
    for run_id in ("one-aaaaaa", "two-bbbbbb"):
        world.run(run_id, step=3, total_steps=9)
        world.losses(run_id, [3.0, 2.0, 1.0])


def test_what_was_chosen_for_the_charts_of_runs_and_of_compare_comes_back(world: World) -> None:
    two_runs(world)

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "aaaaaa", "bbbbbb")
        await pilot.press("enter", "c", "b", "v", "s", "L")
        await shows(pilot, "loss (1 of 2) by time · smoothed 0.6", "(log)")
        await pilot.press("escape", "a", "c", "b", "b", "s", "s")
        await shows(pilot, "loss against tokens · smoothed 0.9")

    async def use_again(pilot: Pilot[None]) -> None:
        await shows(pilot, "aaaaaa", "bbbbbb")
        await pilot.press("enter", "c")
        await shows(pilot, "loss (1 of 2) by time · smoothed 0.6", "num_tokens (2 of 2)", "(log)")
        await pilot.press("escape", "a", "c")
        await shows(pilot, "loss against tokens · smoothed 0.9")

    drive(world.board(), use)
    assert remembered.charting(world.home, "run") == Charted("time", 2, 0.6, logarithmic=True)
    assert remembered.charting(world.home, "compare") == Charted("tokens", 1, 0.9)
    drive(world.board(), use_again)


def test_usual_choices_leave_nothing_in_the_file(world: World) -> None:
    for screen in ("run", "compare"):
        remembered.keep_charting(world.home, screen, Charted("time"))
    remembered.keep_charting(world.home, "run", Charted())
    assert remembered.charting(world.home, "run") == Charted()
    assert remembered.charting(world.home, "compare") == Charted("time")
    remembered.keep_charting(world.home, "compare", Charted())
    assert "charts" not in json.loads((world.home.state / "dashboard" / "chosen.json").read_text())


def test_read_only_shows_what_is_remembered_and_remembers_nothing(world: World) -> None:
    two_runs(world)
    remembered.keep_charting(world.home, "run", Charted("time", 4, 0.9))
    before = (world.home.state / "dashboard" / "chosen.json").read_bytes()

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "aaaaaa")
        await pilot.press("enter", "c")
        await shows(pilot, "loss (1 of 2) by time · smoothed 0.9")
        await pilot.press("s", "b", "b", "b", "v")
        await shows(pilot, "loss (1 of 2) · smoothed 0.97")

    drive(world.board(read_only=True), use)
    assert (world.home.state / "dashboard" / "chosen.json").read_bytes() == before


@pytest.mark.parametrize(
    "kept",
    [
        "{",
        "[]",
        '{"charts": 7}',
        '{"charts": {"run": [1], "compare": null}}',
        '{"charts": {"run": {"against": ["time"], "panels": true, "smoothing": "0.6", "logarithmic": "yes"}}}',
        '{"charts": {"run": {"against": "epoch", "panels": 16, "smoothing": NaN, "logarithmic": 1}}}',
        '{"charts": {"run": {"against": "", "panels": -1e999, "smoothing": 1e999}, "of a later armada": {"x": 1}}}',
    ],
)
def test_a_broken_value_is_the_usual_chart_and_the_next_choice_is_kept(world: World, kept: str) -> None:
    file = world.home.state / "dashboard" / "chosen.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(kept)
    choices = chart_choices.of_home(world.home, writes=True)
    assert [chosen(each) for each in choices.values()] == [Charted(), Charted()]
    choices["run"].next_smoothing()
    assert chosen(chart_choices.of_home(world.home, writes=True)["run"]) == Charted(smoothing=0.6)


def test_a_damaged_file_does_not_stop_the_dashboard(world: World) -> None:
    two_runs(world)
    file = world.home.state / "dashboard" / "chosen.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text('{"charts": {"run": {"against": {"a": 1}, "panels": [2]}}}')

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "aaaaaa")
        await pilot.press("enter", "c", "b")
        await shows(pilot, "loss (1 of 2) by time")
        await until(pilot, lambda: remembered.charting(world.home, "run") == Charted("time"))

    drive(world.board(), use)


@pytest.mark.parametrize("put", [os.mkfifo, Path.mkdir])
def test_what_is_no_file_is_nothing_to_wait_for(world: World, put: Callable[[Path], None]) -> None:
    folder = world.home.state / "dashboard"
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("chosen.json", "commands.json", "views.json"):
        (folder / name).unlink(missing_ok=True)
        put(folder / name)
    assert remembered.theme(world.home) is None
    assert remembered.commands(world.home) == []
    assert views.load(world.home) == {}


def test_settings_may_be_a_link_to_where_they_are_kept(world: World, tmp_path: Path) -> None:
    remembered.keep_theme(world.home, "nord")
    file = world.home.state / "dashboard" / "chosen.json"
    (tmp_path / "kept.json").write_bytes(file.read_bytes())
    file.unlink()
    file.symlink_to(tmp_path / "kept.json")
    assert remembered.theme(world.home) == "nord"
