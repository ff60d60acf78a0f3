"""Amber is for what needs somebody; what waits as usual is plain."""

from __future__ import annotations

import time

import pytest
from textual.pilot import Pilot

from armada.store import hosts, run_sync
from tests.tui.conftest import World, drive, shows, strips
from tests.tui.test_hosts_screen import gpu


def colour(pilot: Pilot[None], words: str, line: str = "") -> str:
    """Return the colour of the first segment below the top line, in a line with `line`, that has these words."""
    lines = [strip for strip in strips(pilot.app)[1:] if line in strip.text]
    found = next(each for strip in lines for each in strip if words in each.text)
    assert found.style is not None
    assert found.style.color is not None
    return found.style.color.name.lower()


def role(pilot: Pilot[None], name: str) -> str:
    return pilot.app.theme_variables[name].lower()


@pytest.mark.parametrize(
    ("state", "fails", "sign"), [("running", False, "◐"), ("running", True, "▲"), ("failed", False, "▲")]
)
def test_a_checkpoint_that_waits_for_the_usual_sync_is_plain_on_its_runs_pages(
    world: World, state: str, fails: bool, sign: str
) -> None:
    world.run("demo-aaaaaa", host="box", state=state)
    world.checkpoint("demo-aaaaaa", 7, home=False)
    if fails:
        now = time.time()
        run_sync.failed(world.database, "demo-aaaaaa", now=now, reason="not readable", next_due_at=now + 60)

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        await pilot.press("enter")
        await shows(pilot, f"{sign} only on the host")
        amber = role(pilot, "text-warning")
        assert (colour(pilot, "only on the host") == amber) == (sign == "▲")
        await pilot.press("p")
        await shows(pilot, "checkpoint-7", "not yet")
        assert (colour(pilot, "not yet") == amber) == (sign == "▲")

    drive(world.board(), use, (160, 48))


def idle_box(world: World, idle_s: int) -> None:
    """A host that is paid for, whose last run ended so many seconds ago."""
    world.hosts(box={"ssh": "root@192.0.2.1", "price_per_hour": 12.0})
    now = time.time()
    world.run("old-aaaaaa", state="succeeded", started_at=now - 7200, ended_at=now - idle_s)
    world.last_sync("old-aaaaaa")
    hosts.record_facts(world.database, "box", {"gpus": [gpu(0)]})


@pytest.mark.parametrize(("idle_s", "is_amber"), [(60, False), (1200, True)])
def test_the_price_of_a_host_is_amber_once_it_has_been_idle_for_long(world: World, idle_s: int, is_amber: bool) -> None:
    idle_box(world, idle_s)

    async def use(pilot: Pilot[None]) -> None:
        await pilot.press("3")
        seen = await shows(pilot, "$12.00/h", "idle")
        assert ("it costs $12.00/h all the same" in seen) == is_amber
        amber = role(pilot, "text-warning")
        assert (colour(pilot, "$12.00/h", " box ") == amber) == is_amber
        await pilot.press("home", "enter")
        await shows(pilot, "money", "idle for")
        assert (colour(pilot, " for", "money") == amber) == is_amber

    drive(world.board(), use, (160, 48))


@pytest.mark.parametrize(("idle_s", "is_amber"), [(60, False), (1200, True)])
def test_so_it_is_where_all_gpus_are_beside_the_runs(world: World, idle_s: int, is_amber: bool) -> None:
    idle_box(world, idle_s)

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "What do the GPUs do?", "$12.00/h idle")
        assert (colour(pilot, "$12.00/h idle") == role(pilot, "text-warning")) == is_amber

    drive(world.board(), use, (250, 70))


@pytest.mark.parametrize("word", ["NaN", "inf"])
def test_a_newest_value_that_is_no_number_has_the_colour_of_errors_above_its_chart(world: World, word: str) -> None:
    world.run("demo-aaaaaa", step=7, total_steps=7)
    world.losses("demo-aaaaaa", [2.0, 1.0, 0.5, float(word)])

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        await pilot.press("enter", "c")
        await shows(pilot, f"{word} since step 4, before 0.5")
        assert colour(pilot, f"{word} since step 4") == role(pilot, "text-error")
        assert colour(pilot, ", before 0.5") == role(pilot, "curve-1")

    drive(world.board(), use, (160, 48))


def test_a_value_that_a_logarithmic_scale_lacks_is_no_error(world: World) -> None:
    world.run("demo-aaaaaa", step=7, total_steps=7)
    world.losses("demo-aaaaaa", [2.0, 1.0, -0.5])

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        await pilot.press("enter", "c", "L")
        await shows(pilot, "-0.5: not on a logarithmic scale")
        assert colour(pilot, "-0.5: not on") == role(pilot, "curve-1")

    drive(world.board(), use, (160, 48))
