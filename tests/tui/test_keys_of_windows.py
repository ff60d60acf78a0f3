"""Every key that closes a window, and those of the tour, the lists to choose from and the fields, each by itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.screen import Screen
from textual.widgets import Input

from armada.tui.app import Dashboard
from armada.tui.commands.completion import complete
from armada.tui.screens.add_host import FIELDS, AddHost
from armada.tui.screens.checking import Checking
from armada.tui.screens.chooser import Choice, Chooser
from armada.tui.screens.command_line import CommandLine
from armada.tui.screens.help import HelpScreen
from armada.tui.screens.history import HistoryWindow
from armada.tui.screens.notifications import NotificationsWindow
from armada.tui.screens.output import OutputWindow
from armada.tui.screens.preview_window import PreviewWindow
from armada.tui.screens.question import Question
from armada.tui.screens.runs import RunsScreen
from armada.tui.screens.setting_editor import SettingEditor
from armada.tui.screens.tour import STEPS, Tour
from armada.tui.screens.unanswered import Unanswered
from armada.tui.screens.verdict import Verdict
from tests.tui.conftest import World, drive, nothing, said, screen, shows, until
from tests.tui.test_command_line import opened as command_opened
from tests.tui.test_windows_help import SETTING, output

Answers = list[object]
Make = Callable[[Dashboard], Screen[Any]]


async def closes(pilot: Pilot[None], make: Make, *keys: str) -> Answers:
    """Open a window anew for each key, and close it by that key; return what each window returned."""
    board = pilot.app
    assert isinstance(board, Dashboard)
    answers: Answers = []
    for count, key in enumerate(keys, 1):
        below, opened = board.screen, make(board)
        board.push_screen(opened, answers.append)
        await until(pilot, lambda opened=opened: board.screen is opened and opened.is_mounted)  # type: ignore[misc]
        await pilot.press(key)
        await until(pilot, lambda count=count: len(answers) == count)  # type: ignore[misc]
        assert board.screen is below
        await pilot.press("home")  # so that the same key again is not held back
    return answers


def test_windows_that_show_something_close_by_each_of_their_keys(world: World) -> None:
    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "no daemon")
        board = pilot.app
        assert isinstance(board, Dashboard)
        await closes(pilot, lambda _: HistoryWindow(), "escape", "q", "7")
        await closes(pilot, lambda _: NotificationsWindow(), "escape", "q", "8")
        await closes(pilot, output, "escape", "q", "enter")
        await closes(pilot, lambda _: PreviewWindow("Rows", ["a row"]), "escape", "q", "v")
        await closes(
            pilot,
            lambda board: HelpScreen("runs", board.symbols, read_only=False),
            *("escape", "q", "enter", "question_mark", "f1"),
        )
        await closes(pilot, lambda board: Tour(board.symbols), "escape", "q")

    drive(world.board(), use)


def test_questions_are_answered_with_no_by_every_key_but_one(world: World) -> None:
    no = ("n", "escape", "q", "enter")

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "no daemon")

        def question(board: Dashboard) -> Question:
            return Question("Drop it?", ["it"], "", "drop it", board.symbols)

        assert await closes(pilot, question, *no, "y") == [False, False, False, False, True]

        def unanswered(board: Dashboard) -> Unanswered:
            return Unanswered("far", "it is silent", [], board.symbols)

        found = await closes(pilot, unanswered, *no, "c", "d", "exclamation_mark")
        assert found == [None, None, None, None, "check", "doctor", "shell"]

        def verdict(board: Dashboard, *, safe: bool = True) -> Verdict:
            return Verdict("far", {"safe": safe, "items": []}, board.symbols)

        assert await closes(pilot, verdict, *no, "y", "w") == [None, None, None, None, "release", "wipe"]
        assert await closes(pilot, lambda board: verdict(board, safe=False), "d") == ["drain"]

    drive(world.board(), use)


def test_fields_and_checks_are_left_by_escape(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    board = world.board()
    monkeypatch.setattr(board, "read", lambda *_: nothing)  # a check that waits for ever

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "no daemon")
        await closes(pilot, lambda _: Checking([("check what is lost", ["rm", "--dry-run", "x"])]), "escape")
        assert "check what is lost: cancelled, nothing was changed" in said(pilot)
        await closes(pilot, lambda board: SettingEditor(SETTING, lambda *_: nothing, board.symbols), "escape")
        await closes(pilot, lambda board: Chooser("Which?", [Choice("a", "a")], board.symbols), "escape")
        await closes(pilot, lambda board: CommandLine(board.commander), "escape")
        await closes(pilot, lambda board: AddHost(board.symbols), "escape")

    drive(board, use)


def test_a_window_opens_its_help_by_both_keys(world: World) -> None:
    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "no daemon")
        await pilot.press("7")
        await until(pilot, lambda: isinstance(pilot.app.screen, HistoryWindow))
        for key in ("question_mark", "f1"):
            await pilot.press(key)
            await until(pilot, lambda: isinstance(pilot.app.screen, HelpScreen))
            await pilot.press("escape")
            await until(pilot, lambda: isinstance(pilot.app.screen, HistoryWindow))

    drive(world.board(), use)


def test_the_tour_goes_on_and_back_by_each_of_its_keys(world: World) -> None:
    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "no daemon")
        board = pilot.app
        assert isinstance(board, Dashboard)
        await board.push_screen(Tour(board.symbols))
        await shows(pilot, f"1 of {len(STEPS)}")
        forth, back = ("enter", "space", "right", "j", "n", "down"), ("left", "k", "p", "up", "backspace")
        for there, again in zip(forth, (*back, back[0]), strict=True):
            await pilot.press(there)
            await shows(pilot, f"2 of {len(STEPS)}")
            await pilot.press(again)
            await shows(pilot, f"1 of {len(STEPS)}")

    drive(world.board(), use)


def test_a_list_to_choose_from_is_gone_through_while_its_field_has_the_focus(world: World) -> None:
    names = [f"entry-{place:02}" for place in range(30)]

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "no daemon")
        board = pilot.app
        assert isinstance(board, Dashboard)
        chooser = Chooser("Which?", [Choice(name, name) for name in names], board.symbols)
        await board.push_screen(chooser)
        await shows(pilot, "Which?", names[0])
        for key, place in (("down", 1), ("pagedown", 11), ("up", 10), ("pageup", 0)):
            await pilot.press(key)
            await until(pilot, lambda place=place: chooser.table.cursor == names[place])  # type: ignore[misc]

    drive(world.board(), use)


def test_the_form_for_a_host_goes_from_field_to_field(world: World) -> None:
    async def use(pilot: Pilot[None]) -> None:
        await pilot.press("3")
        await shows(pilot, "─ Hosts ─")
        await pilot.press("a")
        await shows(pilot, "Add a host")
        form = pilot.app.screen
        assert isinstance(form, AddHost)
        (first, _, _), (second, _, _), *_ = FIELDS
        await until(pilot, lambda: form.fields[first].has_focus)
        await pilot.press("tab")
        await until(pilot, lambda: form.fields[second].has_focus)
        await pilot.press("shift+tab")
        await until(pilot, lambda: form.fields[first].has_focus)

    drive(world.board(), use)


def test_the_command_line_completes_backwards_and_the_filter_too(world: World) -> None:
    world.run("demo-aaaaaa")
    board = world.board()

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        field = await command_opened(pilot)
        await pilot.press("h")
        assert board.commander.registry is not None
        _, found = complete("h", board.commander.registry, board.commander.known.names(board.snapshot))
        first, last = found[0].word, found[-1].word
        assert first != last
        await pilot.press("tab")
        await until(pilot, lambda: field.value.strip() == first)
        await pilot.press("shift+tab")
        await until(pilot, lambda: field.value.strip() == last)
        await pilot.press("escape", "slash", *"sta")
        await shows(pilot, "─ Filter ─", "state")
        runs = pilot.app.screen
        assert isinstance(runs, RunsScreen)
        await pilot.press("tab")
        await until(pilot, lambda: runs.field.value not in ("", "sta"))
        taken = runs.field.value
        await pilot.press("shift+tab", "tab")
        await until(pilot, lambda: runs.field.value == taken)

    drive(board, use)


def test_the_keys_of_an_output_go_through_it(world: World) -> None:
    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "no daemon")
        board = pilot.app
        assert isinstance(board, Dashboard)
        window = output(board)
        await board.push_screen(window)
        await shows(pilot, "a line")
        await pilot.press("slash")
        await shows(pilot, "Search in the output")
        assert isinstance(board.focused, Input)
        await pilot.press("escape", "y")
        await until(pilot, lambda: board.clipboard == "armada show demo-aaaaaa")
        assert isinstance(board.screen, OutputWindow)
        assert "a line" in screen(pilot)

    drive(world.board(), use)
