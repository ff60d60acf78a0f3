"""The folder in which the dashboard was started is deleted while it is open."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from textual.pilot import Pilot

from armada.tui import operations
from armada.tui.operations import Answer
from armada.tui.screens.compare import CompareScreen
from armada.tui.screens.prompt import Prompt
from armada.tui.start_folder import start_folder
from tests.tui.conftest import World, drive, nothing, shows, until
from tests.tui.test_launch_screen import launch


@pytest.fixture
def folder(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which the dashboard is started; nothing else is in it."""
    del world
    found = tmp_path / "project"
    found.mkdir()
    monkeypatch.chdir(found)
    return found


def test_runs_are_still_read_and_files_are_still_offered_there(world: World, folder: Path) -> None:
    for run_id in ("one-aaaaaa", "two-bbbbbb"):
        world.run(run_id, state="succeeded")
        world.losses(run_id, [1.0, 0.5])
    world.checkpoint("one-aaaaaa", 500, home=True)

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "one-aaaaaa", "two-bbbbbb")
        folder.rmdir()
        assert start_folder() is None
        world.run("new-cccccc")
        await shows(pilot, "new-cccccc")
        await pilot.press("a", "c")
        await until(pilot, lambda: isinstance(pilot.app.screen, CompareScreen))
        await pilot.press("c", "E")
        await until(pilot, lambda: isinstance(pilot.app.screen, Prompt))
        await shows(pilot, str(folder / "compare-curves.svg")[-20:])

    drive(world.board(), use)


def test_launch_says_why_it_reads_no_experiment(world: World, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def ask(words: Sequence[str], tell: Callable[[Answer], None]) -> Callable[[], None]:
        del words
        tell(Answer(2, "", "exp.yaml: cannot read it"))
        return nothing

    monkeypatch.setattr(operations, "ask", ask)

    async def use(pilot: Pilot[None]) -> None:
        folder.rmdir()
        await pilot.press("5")
        await shows(pilot, "Type an experiment and a host")
        launch(pilot).fields["experiment"].value = "exp.yaml"
        await shows(pilot, "exp.yaml: cannot read it")

    drive(world.board(), use)
