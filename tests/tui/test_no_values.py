"""A run that has ended gets no more values, and no screen says "yet" of it."""

from __future__ import annotations

import time

from textual.pilot import Pilot

from armada.store import runs
from armada.verdicts.states import Verdict
from tests.tui.conftest import World, drive, lacks, shows


def test_a_run_that_ended_without_a_loss_does_not_say_yet(world: World) -> None:
    world.run("demo-aaaaaa")

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa", "no loss yet")
        verdict = Verdict("failed", "oom", "CUDA out of memory", 1, 2, "evidence")
        runs.record(world.database, "demo-aaaaaa", verdict, ended_at=time.time())
        await shows(pilot, "no loss was recorded")
        await lacks(pilot, "no loss yet")
        await pilot.press("enter")
        await shows(pilot, "needs you", "no loss was recorded")
        await lacks(pilot, "no loss yet")

    drive(world.board(), use)


def test_compare_says_yet_while_one_of_its_runs_is_active(world: World) -> None:
    world.run("demo-aaaaaa", state="failed")
    world.run("more-bbbbbb")

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa", "more-bbbbbb")
        await pilot.press("a", "c")
        await shows(pilot, "no points of this metric yet")
        runs.record(world.database, "more-bbbbbb", Verdict("failed", attempt=1, seq=2), ended_at=time.time())
        await lacks(pilot, "no points of this metric yet")
        await shows(pilot, "no points of this metric")

    drive(world.board(), use)
