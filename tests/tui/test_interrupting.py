"""A command that the dashboard started is interrupted from the history of acts."""

from __future__ import annotations

import asyncio
import socket

from textual.pilot import Pilot

from armada.foundation.process_identity import current
from armada.tui import acts
from tests.tui.conftest import World, drive, said, screen, shows, until


def test_an_act_is_interrupted_as_ctrl_c_does_while_it_runs(world: World) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        world.hosts(far={"ssh": f"root@127.0.0.1:{silent.getsockname()[1]}"})

        async def use(pilot: Pilot[None]) -> None:
            await pilot.press("3")
            await shows(pilot, "far")
            await pilot.press("home", "c")
            await pilot.press("7")
            await shows(pilot, "armada hosts check far", "running")
            connection, _ = await asyncio.to_thread(
                silent.accept
            )  # so it waits for the greeting of a host that says nothing
            with connection:
                await pilot.press("x")
                await shows(pilot, "Interrupt it?", "armada hosts check far")
                await pilot.press("y")
                await shows(pilot, "interrupted")
            await pilot.press("x")
            await until(pilot, lambda: "it has ended" in said(pilot) or "it has ended" in screen(pilot))

        drive(world.board(), use)


def test_an_act_that_ended_is_not_interrupted(world: World) -> None:
    world.run("demo-aaaaaa", state="succeeded")
    log = acts.new_log(world.home, "star")
    acts.record(log, title="star", words=("star", "demo-aaaaaa"), process=current()._replace(start_time="0"))
    (act,) = acts.newest(world.home)
    assert not acts.interrupt(act), "another process has its number now"
    assert not acts.interrupt(act._replace(process=None))
