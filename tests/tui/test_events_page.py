"""The page Events of a run: the cursor stays on its event when another comes."""

from __future__ import annotations

from typing import Any

from textual.pilot import Pilot

from armada.store import metrics
from armada.tui.screens import run_text
from armada.tui.screens.run import RunScreen
from tests.tui.conftest import World, drive, shows, until


def event(seq: int) -> dict[str, Any]:
    return {"seq": seq, "time": 1000.0 + seq, "kind": f"kind{seq}", "message": f"said {seq}"}


def test_the_event_that_is_read_stays_when_a_newer_one_comes(world: World) -> None:
    world.run("demo-aaaaaa")
    metrics.record_events(world.database, "demo-aaaaaa", [event(n) for n in range(1, 6)], offset=0, next_offset=1)

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        await pilot.press("enter", "e")
        await shows(pilot, "said 5")
        await pilot.press("down", "down")
        run = pilot.app.screen
        assert isinstance(run, RunScreen)

        def read() -> str:
            return run_text.whole_event(run.detail, run.events.cursor)

        await until(pilot, lambda: "said 3" in read())
        metrics.record_events(world.database, "demo-aaaaaa", [event(6)], offset=1, next_offset=2)
        world.losses("demo-aaaaaa", [2.0, 1.0])
        await shows(pilot, "said 6")
        assert "said 3" in read()

    drive(world.board(), use)
