"""The cursor of Runs goes to what was just launched, or the screen says why it cannot."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from armada.tui.app import Dashboard
from armada.tui.operations import Ended
from armada.tui.screens.runs import RunsScreen
from tests.tui.conftest import World, drive, said, shows, until
from tests.tui.test_command_line import typed


def first(pilot: Pilot[None]) -> RunsScreen:
    found = pilot.app.screen_stack[0]
    assert isinstance(found, RunsScreen)
    return found


def cell(world: World, number: int) -> None:
    spec = {"job": {"argv": ["true"]}, "experiment": {}, "sweep": {"id": "lr-x7", "cell": number}}
    world.run(f"lr-{number}aaaa", name=f"lr-{number}", spec=spec, state="queued")


def test_the_cursor_goes_to_the_row_of_a_sweep_that_was_just_launched(world: World) -> None:
    world.run("old-aaaaaa")

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "old-aaaaaa")
        table = first(pilot).table
        first(pilot).await_run("box")
        cell(world, 1)
        cell(world, 2)
        await until(pilot, lambda: table.cursor == "sweep:lr-x7:")
        await pilot.press("b", "b")  # grouped by state
        await shows(pilot, "grouped by state")
        await until(pilot, lambda: table.shows("old-aaaaaa"))
        table.place("sweep:lr-x7:queued")
        await pilot.press("left")
        await until(pilot, lambda: "state:queued" in table.closed)
        await pilot.press("home")
        first(pilot).await_run("box")
        world.run("new-cccccc", state="queued")
        await until(pilot, lambda: table.cursor == "state:queued")

    drive(world.board(), use)


def test_a_new_run_that_the_filter_hides_is_told(world: World) -> None:
    world.run("old-aaaaaa")

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "old-aaaaaa")
        await pilot.press("slash", *"old", "enter")
        await shows(pilot, "/ old")
        first(pilot).await_run("box")
        world.run("new-bbbbbb", name="new[/]")
        await until(pilot, lambda: "new[/] was launched; the filter hides it" in said(pilot))
        assert first(pilot).table.cursor == "old-aaaaaa"

    drive(world.board(), use)


@pytest.mark.parametrize(
    ("text", "host"),
    [
        ("launch x.yaml --host=far", "far"),
        ("launch x.yaml --host far", "far"),
        ("launch x.yaml --host auto", "elsewhere"),
        ("sweep x.yaml --host=far --host=box", "elsewhere"),
    ],
)
def test_the_cursor_goes_to_a_run_that_a_typed_command_launched(
    world: World, monkeypatch: pytest.MonkeyPatch, text: str, host: str
) -> None:
    world.run("old-aaaaaa")
    started: list[Sequence[str]] = []

    def operate(board: Dashboard, title: str, words: Sequence[str], *more: Any, **options: Any) -> Path | None:
        del board, title, more, options
        started.append(words)
        return None

    monkeypatch.setattr(Dashboard, "operate", operate)

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "old-aaaaaa")
        await typed(pilot, text, "enter")
        await until(pilot, lambda: started)
        if host == "far":
            world.run("other-bbbbbb", host="box")
            await shows(pilot, "other-bbbbbb")
            assert first(pilot).table.cursor == "old-aaaaaa"
        world.run("new-cccccc", host=host)
        await until(pilot, lambda: first(pilot).table.cursor == "new-cccccc")

    drive(world.board(), use)


def test_a_launch_that_was_typed_and_fails_lets_the_cursor_stay(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.run("old-aaaaaa")
    ends: list[Callable[[Ended], None]] = []

    def operate(board: Dashboard, title: str, words: Sequence[str], ended: Any, **options: Any) -> Path | None:
        del board, title, words, options
        ends.append(ended)
        return None

    monkeypatch.setattr(Dashboard, "operate", operate)

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "old-aaaaaa")
        await typed(pilot, "launch x.yaml --host=far", "enter")
        await until(pilot, lambda: ends)
        ends[0](Ended("launch", 4, "no host is called far", Path("x.log")))
        world.run("of-another-bbbbbb", host="far")
        await shows(pilot, "of-another-bbbbbb")
        assert first(pilot).table.cursor == "old-aaaaaa"

    drive(world.board(), use)
