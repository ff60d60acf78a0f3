"""Launch: values that are being checked while the user does something else."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from textual.pilot import Pilot

from armada.tui import operations
from armada.tui.operations import Answer, Ended
from armada.tui.screens.setting_editor import SettingEditor
from tests.tui.conftest import World, drive, nothing, shows, until
from tests.tui.test_launch_screen import at, file, launch, opened

__all__ = ["file"]


class Held:
    """Keeps back the answers to questions with changes until they are let go."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[], None]] = []
        self.is_on = False
        self.answered = 0
        self._real = operations.ask

    def ask(self, words: Sequence[str], tell: Callable[[Answer], None]) -> Callable[[], None]:
        if not (self.is_on and words[1] == "form" and json.loads(words[2]).get("changes")):
            return self._real(words, tell)

        def told(answer: Answer) -> None:
            tell(answer)
            self.answered += 1

        self.waiting.append(lambda: (self._real(words, told), None)[1])
        return nothing

    def let_go(self) -> None:
        """Answer the question that was asked first."""
        self.waiting.pop(0)()


@pytest.fixture
def held(world: World, monkeypatch: pytest.MonkeyPatch) -> Held:
    del world
    found = Held()
    monkeypatch.setattr(operations, "ask", found.ask)
    return found


async def give(pilot: Pilot[None], key: str, value: str) -> None:
    """Give a value in the editor, which then waits for the loader."""
    await at(pilot, key)
    await pilot.press("enter")
    await until(pilot, lambda: isinstance(pilot.app.screen, SettingEditor) and pilot.app.screen.query("Input"))
    pilot.app.screen.query_one("Input").value = value  # type: ignore[attr-defined]  # it is an Input
    await pilot.press("enter")
    await shows(pilot, "checking …")


def test_a_value_is_not_taken_after_escape(world: World, file: Path, held: Held) -> None:
    del file

    async def use(pilot: Pilot[None]) -> None:
        await opened(pilot)
        held.is_on = True
        await give(pilot, "retries", "3")
        await pilot.press("escape")
        await until(pilot, lambda: pilot.app.screen is launch(pilot))
        held.let_go()
        await until(pilot, lambda: held.answered)
        await give(pilot, "stop_grace_s", "5")
        held.let_go()
        await until(pilot, lambda: launch(pilot).changes == ["stop_grace_s=5"])

    drive(world.board(), use)


def test_a_value_that_is_given_while_another_one_is_checked_is_taken_after_it(
    world: World, file: Path, held: Held
) -> None:
    del file

    async def use(pilot: Pilot[None]) -> None:
        await opened(pilot)
        held.is_on = True
        await at(pilot, "sync.transfer")
        await pilot.press("enter")
        await shows(pilot, "sync.transfer: ")
        await pilot.press(*"rsync", "enter")
        await until(pilot, lambda: held.waiting)
        await give(pilot, "stop_grace_s", "5")
        held.let_go()
        await until(pilot, lambda: held.waiting)
        held.is_on = False
        held.let_go()
        await until(pilot, lambda: launch(pilot).changes == ["sync.transfer=rsync", "stop_grace_s=5"])
        await until(pilot, lambda: pilot.app.screen is launch(pilot))

    drive(world.board(), use)


def test_changes_that_were_typed_while_a_value_is_checked_stay(world: World, file: Path, held: Held) -> None:
    del file

    async def use(pilot: Pilot[None]) -> None:
        await opened(pilot)
        held.is_on = True
        await give(pilot, "retries", "3")
        launch(pilot).form.mean("exp.yaml", ["name=other"])
        held.let_go()
        await until(pilot, lambda: held.waiting)
        held.is_on = False
        held.let_go()
        await until(pilot, lambda: launch(pilot).changes == ["name=other", "retries=3"])
        await until(pilot, lambda: pilot.app.screen is launch(pilot))

    drive(world.board(), use)


def test_a_change_that_was_made_while_the_file_was_saved_stays(
    world: World, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends: list[Callable[[Ended], None]] = []

    async def use(pilot: Pilot[None]) -> None:
        await opened(pilot)
        board = launch(pilot).board
        monkeypatch.setattr(board, "operate", lambda _title, _words, ended: ends.append(ended))
        launch(pilot).fields["set"].value = "name=other"
        await shows(pilot, "1 change")
        await pilot.press("S")
        await shows(pilot, "Save as", "exp-2.yaml")
        await pilot.press("enter")
        await until(pilot, lambda: ends)
        launch(pilot).fields["set"].value = "name=other retries=1"
        await until(pilot, lambda: launch(pilot).form.changes == ["name=other", "retries=1"])
        Path("exp-2.yaml").write_text(file.read_text())
        ends[0](Ended("save", 0, "", Path()))
        assert launch(pilot).fields["experiment"].value == "exp-2.yaml"
        assert launch(pilot).changes == ["retries=1"]
        await shows(pilot, "Experiment exp-2.yaml", "1 change")

    drive(world.board(), use)
