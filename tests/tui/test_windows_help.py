"""`?` and F1 in every window: its own keys come first; where a text is typed, `?` is a letter of it."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.screen import ModalScreen, Screen
from textual.widgets import Input

import armada.tui
from armada.tui.app import Dashboard
from armada.tui.form import Setting
from armada.tui.screens.add_host import AddHost
from armada.tui.screens.checking import Checking
from armada.tui.screens.chooser import Choice, Chooser
from armada.tui.screens.columns import ColumnsWindow
from armada.tui.screens.command_line import CommandLine
from armada.tui.screens.dialog import Dialog
from armada.tui.screens.help import HelpScreen
from armada.tui.screens.history import HistoryWindow
from armada.tui.screens.list_window import ListWindow
from armada.tui.screens.notifications import NotificationsWindow
from armada.tui.screens.output import OutputWindow
from armada.tui.screens.palette import Palette
from armada.tui.screens.preview_window import PreviewWindow
from armada.tui.screens.prompt import Prompt
from armada.tui.screens.question import Question
from armada.tui.screens.saved_views import ViewChooser
from armada.tui.screens.setting_editor import SettingEditor
from armada.tui.screens.tour import Tour
from armada.tui.screens.unanswered import Unanswered
from armada.tui.screens.verdict import Verdict
from armada.tui.screens.window import Window
from armada.tui.undo import Changes
from tests.tui.conftest import World, drive, nothing, shows, until

SETTING = Setting("train.max_steps", "5")
BASES: frozenset[type[object]] = frozenset({Dialog, ListWindow, Window})
"""Windows of which none is opened as it is."""


def output(board: Dashboard) -> OutputWindow:
    log = board.home.state / "output.log"
    log.write_text("a line\n")
    return OutputWindow(("show", "demo-aaaaaa"), log, lambda: 0)


WINDOWS: dict[type[ModalScreen[Any]], tuple[Callable[[Dashboard], ModalScreen[Any]], str]] = {
    AddHost: (lambda board: AddHost(board.symbols), "Next field"),
    Checking: (lambda _: Checking([("check what is lost", ["ps", "--cached"])]), "Cancel"),
    Chooser: (lambda board: Chooser("Which?", [Choice("a", "a")], board.symbols), "Take what is typed"),
    ColumnsWindow: (lambda board: ColumnsWindow(board, [], lambda _: []), "Columns of Runs"),
    CommandLine: (lambda board: CommandLine(board.commander), "Take what is typed"),
    HistoryWindow: (lambda _: HistoryWindow(), "History of acts"),
    NotificationsWindow: (lambda _: NotificationsWindow(), "Notifications"),
    OutputWindow: (output, "Output of a command"),
    PreviewWindow: (lambda _: PreviewWindow("Rows", ["a row"]), "Search in lists and texts"),
    Prompt: (lambda board: Prompt("Where?", "", "", board.symbols), "Take what is typed"),
    Question: (lambda board: Question("Drop it?", ["it"], "", "drop", board.symbols), "No: change nothing"),
    SettingEditor: (lambda board: SettingEditor(SETTING, lambda *_: nothing, board.symbols), "Take what is typed"),
    Tour: (lambda board: Tour(board.symbols), "Next"),
    Unanswered: (lambda board: Unanswered("far", "it is silent", [], board.symbols), "Doctor"),
    Verdict: (lambda board: Verdict("far", {"safe": True, "items": []}, board.symbols), "Wipe"),
    ViewChooser: (lambda board: ViewChooser(board, Changes(board.home)), "Delete"),
}
"""How each window is made, and what its help says that no other help begins with."""


def test_every_window_is_among_those_that_are_tested() -> None:
    for module in pkgutil.walk_packages(armada.tui.__path__, "armada.tui."):
        importlib.import_module(module.name)
    left: list[type[object]] = [ModalScreen]
    found: set[type[object]] = set()
    while left:
        subclasses = left.pop().__subclasses__()
        left += subclasses
        found.update(each for each in subclasses if each.__module__.startswith("armada."))
    assert found - BASES == {*WINDOWS, HelpScreen, Palette}


@pytest.mark.parametrize("window", WINDOWS, ids=lambda window: window.__name__)
def test_a_window_answers_help_or_takes_it_as_a_letter(world: World, window: type[ModalScreen[Any]]) -> None:
    world.run("demo-aaaaaa")
    board = world.board()
    make, words = WINDOWS[window]

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        opened: Screen[Any] = make(board)
        if isinstance(opened, Checking):
            board.read = lambda *_: lambda: None  # type: ignore[method-assign]  # it waits for ever
        await board.push_screen(opened)
        await until(pilot, lambda: board.screen is opened)
        await pilot.press("question_mark")
        if isinstance(field := opened.focused, Input):
            await until(pilot, lambda: field.value.endswith("?"))
            assert board.screen is opened
            await pilot.press("f1")
        await until(pilot, lambda: isinstance(board.screen, HelpScreen))
        first = (await shows(pilot, "─ Keys ─")).partition("─ Keys ─")[2]
        assert words in first
        await pilot.press("question_mark")
        await until(pilot, lambda: board.screen is opened)

    drive(board, use)


def test_the_palette_takes_it_as_a_letter(world: World) -> None:
    async def use(pilot: Pilot[None]) -> None:
        await pilot.press("ctrl+p")
        await until(pilot, lambda: isinstance(pilot.app.screen, Palette) and pilot.app.focused is not None)
        await pilot.press("question_mark")
        await until(pilot, lambda: pilot.app.screen.query_one(Input).value == "?")

    drive(world.board(), use)


def test_help_closes_by_the_keys_that_open_it(world: World) -> None:
    async def use(pilot: Pilot[None]) -> None:
        for opens, closes in (("question_mark", "f1"), ("f1", "question_mark")):
            await pilot.press(opens)
            await until(pilot, lambda: isinstance(pilot.app.screen, HelpScreen))
            await pilot.press(closes)
            await until(pilot, lambda: not isinstance(pilot.app.screen, HelpScreen))

    drive(world.board(), use)
