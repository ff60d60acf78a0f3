"""Scripts that count their steps anew: the newest value is the one that was measured last, on every screen."""

from __future__ import annotations

import math
import time

import pytest
from textual.pilot import Pilot

from armada.store import metrics, runs
from armada.store.queries.curves import OUTLINE, read_curve
from armada.tui.curves import NAN, Curve
from tests.tui.conftest import World, drive, lacks, shows

RUN = "demo-aaaaaa"


def measure(world: World, steps: list[int], value: float) -> None:
    """Append so many steps with one loss, later than all before."""
    run = runs.find(world.database, RUN)
    start = time.time() - 1000 + run.metrics_offset
    lines = [
        {"kind": "train", "step": step, "time": start + place, "loss": value} for place, step in enumerate(steps, 1)
    ]
    after = run.metrics_offset + len(steps)
    assert metrics.record_metrics(world.database, RUN, lines, offset=run.metrics_offset, next_offset=after)


@pytest.mark.parametrize("size", [(140, 40), (80, 24)])
def test_the_newest_loss_is_the_same_in_runs_and_on_the_page_of_the_run(world: World, size: tuple[int, int]) -> None:
    world.run(RUN, step=20, total_steps=100)
    measure(world, list(range(1, 21)), 7.25)
    measure(world, list(range(1, 11)), 3.5)

    async def use(pilot: Pilot[None]) -> None:
        seen = await shows(pilot, "  3.5 ", "lowest 3.5 · highest 7.25")
        assert "  7.25 " not in seen
        await pilot.press("enter")
        await shows(pilot, "loss 3.5 ", "3.5  lowest 3.5 · highest 7.25")
        await pilot.press("c")
        await shows(pilot, "loss (1 of 1)", "3.5  lowest 3.5")
        if size[0] > 100:
            await shows(pilot, "last      3.5        step 10")

    drive(world.board(), use, size=size)


def test_an_open_chart_follows_steps_that_go_back(world: World) -> None:
    world.run(RUN, step=20, total_steps=100)
    measure(world, list(range(1, 21)), 7.25)

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, RUN)
        await pilot.press("enter", "c")
        await shows(pilot, "last      7.25       step 20")
        measure(world, list(range(1, 6)), 3.5)
        await shows(pilot, "last      3.5        step 5", "3.5  lowest 3.5 · highest 7.25")
        measure(world, [6, 7], NAN)
        await shows(pilot, "last      NaN        step 7", "before    3.5        step 5", "NaN since step 6, before 3.5")
        measure(world, list(range(8, 22)), 1.5)
        await shows(pilot, "last      1.5        step 21")
        await lacks(pilot, "NaN since")

    drive(world.board(watch=True), use)


def test_a_curve_knows_its_newest_value_by_its_time() -> None:
    curve = Curve([(1, 11.0, 0.5), (2, 12.0, None), (3, 3.0, 9.0), (4, 4.0, 9.5)])
    assert math.isnan(curve.newest)
    assert (curve.last_finite, curve.doubt()) == ((1, 0.5), "NaN since step 2")
    curve.extend([(5, 5.0, 8.0)])
    assert curve.last == 0.5
    curve.extend([(6, 13.0, math.inf)])
    assert (curve.newest, curve.doubt()) == (math.inf, "inf since step 2")
    curve.extend([(7, 13.0, 4.0)])
    assert (curve.newest, curve.last_finite, curve.doubt()) == (4.0, (7, 4.0), "")


def test_the_outline_of_a_long_curve_has_its_newest_value(world: World) -> None:
    world.run(RUN)
    measure(world, list(range(1, 20_001)), 7.25)
    measure(world, list(range(1, 8_001)), 3.5)
    outline = read_curve(world.database, RUN, "loss", outline=True)
    assert len(outline) <= 2 * OUTLINE + 2
    assert Curve(outline).last_finite == Curve(read_curve(world.database, RUN, "loss")).last_finite == (8_000, 3.5)
