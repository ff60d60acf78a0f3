"""The keys of Sync act on the run under the cursor and on its host; the key line shows the most needed keys first."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from textual.pilot import Pilot

from armada.store import hosts
from armada.tui.screens import outside
from armada.tui.screens.run import RunScreen
from armada.tui.screens.sync import SyncScreen
from tests.tui.conftest import World, drive, lacks, said, screen, shows, until


def test_from_its_row_the_host_is_asked_and_the_runs_log_page_and_shell_open(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.hosts(gone={"ssh": "root@127.0.0.1:1"})
    world.run("demo-aaaaaa", host="gone", state="failed")
    world.checkpoint("demo-aaaaaa", 8, home=False)
    shells: list[list[str]] = []
    monkeypatch.setattr(outside, "open_shell", lambda board, words: shells.append(list(words)))

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        await pilot.press("4")
        await shows(pilot, "disk at home", "r release?", "l logs", "! shell", "w web")
        await pilot.press("exclamation_mark")
        await until(pilot, lambda: shells == [["ssh", "demo-aaaaaa"]])
        await pilot.press("w")
        await until(pilot, lambda: "demo-aaaaaa has no page" in said(pilot))
        await pilot.press("r")
        lost = "demo-aaaaaa: 1 checkpoint only there"
        await shows(
            pilot, "It is unknown what gone holds", "refuses connections", lost, "c check it", "d doctor", "! shell"
        )
        await pilot.press("exclamation_mark")
        await until(pilot, lambda: shells[1:] == [["ssh", "gone"]])
        await lacks(pilot, "It is unknown")
        await pilot.press("r")
        await shows(pilot, "It is unknown what gone holds")
        await pilot.press("c")
        await until(pilot, lambda: "check gone" in said(pilot))
        await pilot.press("l")
        await shows(pilot, "demo-aaaaaa", "/ search")
        assert not isinstance(pilot.app.screen, SyncScreen)

    drive(world.board(), use)


@pytest.mark.parametrize("key", ["enter", "l"])
def test_escape_from_a_run_that_was_opened_on_sync_goes_back_there(world: World, key: str) -> None:
    for name in ("one", "two"):
        world.run(f"{name}-aaaaaa", state="failed")
        world.checkpoint(f"{name}-aaaaaa", 8, home=False)

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "2 of 2 runs")
        await pilot.press("4")
        await shows(pilot, "disk at home")
        sync = pilot.app.screen
        assert isinstance(sync, SyncScreen)
        await pilot.press("down")
        held = sync.table.cursor
        for back in ("escape", "4"):
            await pilot.press(key)
            await until(pilot, lambda: isinstance(pilot.app.screen, RunScreen))
            assert getattr(pilot.app.screen, "run_id", None) == held
            await pilot.press(back)
            await until(pilot, lambda: pilot.app.screen is sync)
            assert sync.table.cursor == held
        await pilot.press("escape")
        await until(pilot, lambda: len(pilot.app.screen_stack) == 1)

    drive(world.board(), use)


def test_the_key_of_the_run_screen_opens_the_run_under_the_cursor_wherever_runs_are_listed(world: World) -> None:
    for name in ("first", "other"):
        world.run(f"{name}-aaaaaa", name=name, state="running")
        world.checkpoint(f"{name}-aaaaaa", 8, home=False)
        world.losses(f"{name}-aaaaaa", [3.0, 2.0])

    async def meant(pilot: Pilot[None], key: str) -> str:
        """Go to a screen, move its cursor to the run that was not opened before, and open it with `2`."""
        await pilot.press(key)
        await until(pilot, lambda: pilot.app.screen.cursor_run is not None)  # type: ignore[attr-defined]
        before = pilot.app.screen.cursor_run  # type: ignore[attr-defined]
        await pilot.press("down")
        await until(pilot, lambda: pilot.app.screen.cursor_run != before)  # type: ignore[attr-defined]
        under: str = pilot.app.screen.cursor_run  # type: ignore[attr-defined]
        await pilot.press("2")
        await until(pilot, lambda: isinstance(pilot.app.screen, RunScreen))
        assert isinstance(pilot.app.screen, RunScreen)
        assert pilot.app.screen.run_id == under
        return under

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "first aaaaaa", "other aaaaaa")
        await meant(pilot, "4")
        await pilot.press("1", "space", "down", "space")
        await meant(pilot, "c")

    drive(world.board(), use, (140, 40))


def test_without_a_run_each_key_says_so(world: World) -> None:
    world.run("done-aaaaaa", state="succeeded")
    world.last_sync("done-aaaaaa")

    async def use(pilot: Pilot[None]) -> None:
        await pilot.press("4")
        await shows(pilot, "everything is home")
        for key, words in (
            ("r", "release: no"),
            ("l", "logs: no"),
            ("enter", "open: no"),
            ("w", "no"),
            ("!", "shell: no"),
        ):
            await pilot.press("exclamation_mark" if key == "!" else key)
            await until(pilot, lambda words=words: f"{words} run under the cursor" in said(pilot))  # type: ignore[misc]

    drive(world.board(), use)


@pytest.mark.parametrize(
    ("width", "keys"),
    [
        (80, ("enter unfold", "r release?", "! shell", "l its runs")),
        (160, ("enter unfold", "r release?", "! shell", "l its runs", "c check", "d doctor", "a add", "p provision")),
        (200, ("t trust", "x reap", "D remove", "v history")),
    ],
)
def test_the_key_line_of_hosts_begins_with_what_is_needed_most(world: World, width: int, keys: Sequence[str]) -> None:
    world.hosts(box={"ssh": "root@192.0.2.1"})
    hosts.record_facts(world.database, "box", {"gpus": []})

    async def use(pilot: Pilot[None]) -> None:
        await pilot.press("3")
        await shows(pilot, "enter unfold")
        line = screen(pilot).splitlines()[-1]
        places = [line.find(key) for key in keys]
        assert -1 not in places, line
        assert places == sorted(places)

    drive(world.board(), use, (width, 30))


def test_on_charts_two_keys_have_two_names(world: World) -> None:
    world.run("demo-aaaaaa", step=9)
    world.losses("demo-aaaaaa", [1.0] * 9)

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        await pilot.press("enter", "c")
        await shows(pilot, "L scale", "l log")

    drive(world.board(), use, (240, 40))


def test_that_nothing_waits_is_said_whole_in_the_smallest_terminal(world: World) -> None:
    world.run("demo-aaaaaa", state="succeeded")
    world.last_sync("demo-aaaaaa")

    async def use(pilot: Pilot[None]) -> None:
        await pilot.press("4")
        await shows(pilot, "everything is home")

    drive(world.board(), use, (80, 24))


def test_a_run_that_ended_elsewhere_and_was_never_synced_is_not_home(world: World) -> None:
    world.run("never-aaaaaa", name="never", state="succeeded")
    world.run("here-bbbbbb", name="here", state="succeeded", host="local")

    async def use(pilot: Pilot[None]) -> None:
        await pilot.press("4")
        seen = await shows(pilot, "never aaaaaa", "none yet", "not planned")
        assert "everything is home" not in seen
        assert "here bbbbbb" not in seen
        world.last_sync("never-aaaaaa")
        await shows(pilot, "everything is home")

    drive(world.board(), use)
