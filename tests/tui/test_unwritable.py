"""A disk that cannot be written: keys that only read say so, and show what there is."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from textual.pilot import Pilot

from armada.tui import logs
from armada.tui.screens.compare import CompareScreen
from tests.tui.conftest import World, drive, said, shows, until
from tests.tui.test_launch_screen import file, launch, opened

__all__ = ["file"]

NO_FILE = "not started, as there can be no file for its output"


@pytest.fixture
def unwritable(world: World) -> World:
    """Two runs and a host; a file is in the way of what the dashboard writes."""
    world.hosts(box={"ssh": "root@192.0.2.1"})
    for run_id in ("demo-aaaaaa", "demo-bbbbbb"):
        world.run(run_id)
        world.losses(run_id, [2.0, 1.0])
    folder = world.home.state / "dashboard"
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("output", "logs"):
        (folder / name).write_text("a file is in the way")
    return world


def copy_at_home(world: World, run_id: str, text: str) -> Path:
    path = world.home.run(run_id) / "outputs" / "output.log"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    return path


def test_a_log_that_cannot_be_followed_says_why_and_shows_the_copy_at_home(unwritable: World) -> None:
    for run_id in ("demo-aaaaaa", "demo-bbbbbb"):
        copy_at_home(unwritable, run_id, "a line at home\n")

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        await pilot.press("2", "l")
        await shows(pilot, "a line at home", "copy at home as of", "the log cannot be fetched:", "File exists")

    drive(unwritable.board(), use)


def test_a_log_that_is_not_at_home_and_cannot_be_followed_says_why(unwritable: World) -> None:
    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        await pilot.press("2", "l")
        await shows(pilot, "armada logs: the log cannot be fetched:")

    drive(unwritable.board(), use)


def test_half_a_copy_of_a_log_does_not_stay(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.run("demo-aaaaaa")
    known = copy_at_home(world, "demo-aaaaaa", "first\nsecond\n")

    def half(_source: Path, target: Path) -> None:
        target.write_text("first\n")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(shutil, "copyfile", half)
    follower = logs.Follower(world.home, "demo-aaaaaa")
    follower.start()
    assert follower.reason == "the log cannot be fetched: [Errno 28] No space left on device"
    assert (follower.is_started, follower.partial, follower.path.exists()) == (False, False, False)
    assert known.read_text() == "first\nsecond\n"
    follower.stop()


def test_a_command_and_a_diagnosis_whose_output_can_have_no_file_say_so(unwritable: World) -> None:
    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa", "demo-bbbbbb")
        await pilot.press(":", *"why demo-aaaaaa")
        await shows(pilot, "armada why demo-aaaaaa")
        await pilot.press("enter")
        await until(pilot, lambda: f"why demo-aaaaaa: {NO_FILE}: " in said(pilot))
        await pilot.press("3")
        await shows(pilot, "– local", "box")
        await pilot.press("home", "d")
        await until(pilot, lambda: f"doctor -- box: {NO_FILE}: " in said(pilot))

    drive(unwritable.board(), use)


def test_a_difference_of_two_runs_whose_output_can_have_no_file_is_said_not_to_be_started(unwritable: World) -> None:
    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa", "demo-bbbbbb")
        await pilot.press("a", "6")
        await until(pilot, lambda: isinstance(pilot.app.screen, CompareScreen) and pilot.app.screen.lit is not None)
        await pilot.press("d")
        await until(pilot, lambda: f": {NO_FILE}: " in said(pilot))
        assert "diff demo-" in said(pilot)

    drive(unwritable.board(), use)


def test_a_difference_of_an_experiment_whose_output_can_have_no_file_is_said_not_to_be_started(
    unwritable: World, file: Path
) -> None:
    async def use(pilot: Pilot[None]) -> None:
        await opened(pilot)
        launch(pilot).fields["set"].value = "name=other"
        await shows(pilot, "1 change")
        await pilot.press("D")
        await until(pilot, lambda: f"config edit --set=name=other -- exp.yaml: {NO_FILE}: " in said(pilot))

    drive(unwritable.board(), use)
