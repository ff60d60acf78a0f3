"""Keys that no other test presses: a whole run of these tests showed which of the table nothing had called."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from textual.pilot import Pilot

from armada.tui.screens.compare import CompareScreen
from armada.tui.screens.launch import LaunchScreen
from armada.tui.screens.output import OutputWindow
from armada.tui.screens.run import RunScreen
from armada.tui.widgets.chart import Chart
from tests.tui.conftest import World, drive, lacks, said, shows, until
from tests.tui.test_compare import fill, opened


def span(chart: Chart) -> tuple[float, float]:
    """From where to where a chart goes, as it was drawn last; no numbers while it is not drawn."""
    window = chart._window  # noqa: SLF001  # what is drawn is read, not what was asked for
    return (math.nan, math.nan) if window is None else (window.x0, window.x1)


def place(window: OutputWindow) -> int | None:
    """Where the match is that was gone to."""
    return window.view._found  # noqa: SLF001


async def moves(pilot: Pilot[None], chart: Chart) -> None:
    """Zoom in, move there and back, zoom out, and see the whole again."""
    await until(pilot, lambda: span(chart)[0] < span(chart)[1])
    whole = span(chart)
    await pilot.press("plus")
    await until(pilot, lambda: span(chart)[1] - span(chart)[0] < whole[1] - whole[0])
    near = span(chart)
    await pilot.press("left")
    await until(pilot, lambda: span(chart)[0] < near[0])
    await pilot.press("right")
    await until(pilot, lambda: span(chart) == near)
    await pilot.press("minus")
    await until(pilot, lambda: span(chart)[1] - span(chart)[0] > near[1] - near[0])
    await pilot.press("plus", "plus", "0")
    await until(pilot, lambda: span(chart) == whole)


def test_charts_of_a_run_are_zoomed_and_moved_by_keys(world: World) -> None:
    world.run("demo-aaaaaa", step=100, total_steps=100)
    world.losses("demo-aaaaaa", [3.0 / (1 + step) for step in range(100)])

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        await pilot.press("enter", "c")
        await shows(pilot, "loss (1 of 2)")
        view = pilot.app.screen
        assert isinstance(view, RunScreen)
        await moves(pilot, view.wall.query(Chart).first())
        await pilot.press("shift+tab")
        await lacks(pilot, "loss (1 of 2)")
        await pilot.press("tab")
        await shows(pilot, "loss (1 of 2)")

    drive(world.board(), use)


def test_compared_curves_are_zoomed_and_moved_and_the_runs_id_is_copied(world: World) -> None:
    fill(world)
    board = world.board()

    async def use(pilot: Pilot[None]) -> None:
        view = await opened(pilot)
        assert isinstance(view, CompareScreen)
        await moves(pilot, view.chart)
        await pilot.press("full_stop")
        await until(pilot, lambda: view.chart._cross is not None)  # noqa: SLF001
        await pilot.press("0")
        await until(pilot, lambda: view.chart._cross is None)  # noqa: SLF001
        await pilot.press("Y")
        await until(pilot, lambda: "copied: " in said(pilot))
        assert set(board.clipboard.split()) == set(view.run_ids)  # all are marked

    drive(board, use)


def test_sync_opens_its_run_and_copies_its_id(world: World) -> None:
    world.run("demo-aaaaaa")
    board = world.board()

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        await pilot.press("4")
        await shows(pilot, "demo-aaaaaa")
        await pilot.press("Y")
        await until(pilot, lambda: "copied: demo-aaaaaa" in said(pilot))
        assert board.clipboard == "demo-aaaaaa"
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(pilot.app.screen, RunScreen))

    drive(board, use)


def test_a_commands_output_is_searched_and_wrapped(world: World, tmp_path: Path) -> None:
    fill(world)

    async def use(pilot: Pilot[None]) -> None:
        await opened(pilot)
        await pilot.press("j", "d")
        await until(pilot, lambda: isinstance(pilot.app.screen, OutputWindow))
        window = pilot.app.screen
        assert isinstance(window, OutputWindow)
        await shows(pilot, "train.learning_rate")
        await pilot.press("n")  # without a word it asks for one
        await shows(pilot, "Search in the output")
        await pilot.press(*"train", "enter")
        await until(pilot, lambda: place(window) is not None)
        first = place(window)
        await pilot.press("n")
        await until(pilot, lambda: place(window) not in (None, first))
        await pilot.press("N")
        await until(pilot, lambda: place(window) == first)
        wraps = window.view.wrapping
        await pilot.press("W")
        await until(pilot, lambda: window.view.wrapping != wraps)

    drive(world.board(), use)


def test_the_experiment_is_chosen_from_a_list_and_the_plan_resolved_again(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "exp.yaml").write_text("task: command\nname: one\ncommand: [python, train.py]\n")

    async def use(pilot: Pilot[None]) -> None:
        await pilot.press("5")
        view = pilot.app.screen
        assert isinstance(view, LaunchScreen)
        view.fields["experiment"].focus()
        await pilot.press("ctrl+o")
        await shows(pilot, "Which experiment?", "exp.yaml")
        await pilot.press("down", "enter")
        await until(pilot, lambda: view.fields["experiment"].value == "exp.yaml" and view.form.form is not None)
        view.asked = None
        await pilot.press("ctrl+r")
        await until(pilot, lambda: view.asked is not None and (view.asked[0], view.asked[-1]) == ("plan", "exp.yaml"))

    drive(world.board(), use)
