"""What stands beside a run that waits, or that has ended, is not taken for something else."""

from __future__ import annotations

import time

import pytest
from textual.pilot import Pilot

from armada.store import hosts
from armada.tui.screens.runs import RunsScreen
from tests.tui.conftest import World, drive, lacks, shows, until


def test_what_waits_on_an_unreachable_host_says_so(world: World) -> None:
    world.hosts(box={"ssh": "root@192.0.2.1"})
    world.run("demo-aaaaaa", unreachable_since=time.time() - 2.5 * 86_400, unreachable_why="no route to host")
    world.checkpoint("demo-aaaaaa", 3, home=False)

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        await pilot.press("4")
        await shows(pilot, "waits: box has been unreachable for 2 d 12 h: no route to host")

    drive(world.board(), use)


@pytest.mark.parametrize(("state", "title"), [("running", "─ box ─"), ("failed", "─ box now ─")])
def test_the_gpus_beside_a_run_that_ended_are_those_of_its_host_now(world: World, state: str, title: str) -> None:
    world.hosts(box={"ssh": "root@192.0.2.1"})
    world.run("demo-aaaaaa", state=state, gpus="[0]")
    hosts.record_facts(world.database, "box", {"gpus": [{"index": 0, "name": "A100"}]})

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa", title)

    drive(world.board(), use, (250, 70))


def test_a_chart_without_room_for_its_curve_does_not_say_that_there_is_none(world: World) -> None:
    for letter in "bcdefghijklm":
        world.run(f"other-{6 * letter}", state="succeeded")
    world.run("demo-aaaaaa", step=3, total_steps=9)
    world.losses("demo-aaaaaa", [3.0, 2.0, 1.0])

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "lowest 1 · highest 3")
        await pilot.press("slash", *"state:")
        await shows(pilot, "preparing", "lowest 1 · highest 3")
        view = pilot.app.screen
        assert isinstance(view, RunsScreen)
        # Its heading, and no room for a row and its label.
        await until(pilot, lambda: view.preview.chart.size.height == 2)
        await lacks(pilot, "no loss yet")

    drive(world.board(), use, size=(80, 24))


def test_the_curve_beside_a_run_without_a_loss_is_that_of_its_first_metric(world: World) -> None:
    world.run("loss-aaaaaa")
    world.losses("loss-aaaaaa", [3.0, 2.0])
    world.losses("loss-aaaaaa", [0.25, 0.5], name="accuracy")
    world.run("none-bbbbbb", step=3)
    world.losses("none-bbbbbb", [0.25, 0.75], name="accuracy")
    world.losses("none-bbbbbb", [5.0, 6.0], name="zeal")

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "2 of 2 runs")
        view = pilot.app.screen
        assert isinstance(view, RunsScreen)
        view.table.place("none-bbbbbb")
        await shows(pilot, "none-bbbbbb · accuracy", "lowest 0.25 · highest 0.75")
        world.losses("none-bbbbbb", [0.875], name="accuracy")
        await shows(pilot, "lowest 0.25 · highest 0.875")
        view.table.place("loss-aaaaaa")
        await shows(pilot, "loss-aaaaaa · loss", "lowest 2 · highest 3")
        view.table.place("none-bbbbbb")
        await shows(pilot, "none-bbbbbb · accuracy")
        world.losses("none-bbbbbb", [7.5], name="loss")
        await shows(pilot, "none-bbbbbb · loss", "7.5")

    drive(world.board(), use)
