"""Keys that arrive at once, as over a slow link, close one window, and are obeyed in their order."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

import pytest
from textual import events
from textual.pilot import Pilot
from textual.widgets import Input

from armada.tui import operations
from armada.tui.operations import Answer
from armada.tui.screens.prompt import Prompt
from armada.tui.screens.question import Question
from armada.tui.screens.reap import ask_reap
from armada.tui.screens.removal import Removal
from armada.tui.screens.run import RunScreen
from armada.tui.screens.runs import RunsScreen
from armada.tui.screens.unanswered import Unanswered
from armada.tui.screens.verdict import Verdict, ask_release, show_verdict
from armada.tui.symbols import UNICODE
from tests.tui.conftest import World, drive, lacks, nothing, said, shows, strips, until


def at_once(pilot: Pilot[None], *keys: str) -> None:
    """Let keys arrive in one piece: nothing is handled between them."""
    for key in keys:
        pilot.app.post_message(events.Key(key, {"space": " "}.get(key, key if len(key) == 1 else None)))


@pytest.mark.parametrize(
    "opens",
    [("i", "h"), ("t", "arc"), ("C", ""), ("C", "name"), ("V", "mine"), ("ctrl+p", ""), ("ctrl+p", "theme"), ("x", "")],
)
def test_two_enters_at_once_close_one_window(world: World, opens: tuple[str, str]) -> None:
    world.run("demo-aaaaaa")
    key, text = opens

    async def use(pilot: Pilot[None]) -> None:
        board = pilot.app
        await shows(pilot, "demo-aaaaaa")
        await pilot.press(key)
        await until(pilot, lambda: len(board.screen_stack) == 2)
        await pilot.press(*text)
        at_once(pilot, "enter", "enter")
        for _ in range(3):
            await pilot.pause()
        assert isinstance(board.screen_stack[0], RunsScreen)

    drive(world.board(), use)


def commands(world: World, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Record the commands that the dashboard starts, instead of starting them."""
    started: list[list[str]] = []
    world.run("demo-aaaaaa")

    def start(_home: object, _title: str, words: Sequence[str], *_: object, **__: object) -> None:
        started.append(list(words))

    monkeypatch.setattr(operations, "start", start)
    return started


@pytest.mark.parametrize("way", ["one after the other", "at once"])
def test_a_second_y_after_a_question_does_not_act_on_the_list_below(
    world: World, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    started = commands(world, monkeypatch)

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        await pilot.press("x")
        await shows(pilot, "Stop 1 run?")
        if way == "at once":
            at_once(pilot, "y", "y")
            await until(pilot, lambda: started)
            await pilot.pause()
        else:
            await pilot.press("y")
            await lacks(pilot, "Stop 1 run?")
            await pilot.press("y")
            assert "y answered the question" in said(pilot)
        assert started == [["stop", "demo-aaaaaa"]]
        await pilot.press("x")
        await shows(pilot, "Stop 1 run?")
        await pilot.press("n", "n")
        assert isinstance(pilot.app.screen, RunsScreen), "the second n does not open Launch"
        await pilot.press("y")
        await until(pilot, lambda: started[1:] == [["sync", "now", "demo-aaaaaa"]])

    drive(world.board(), use)


def test_a_key_that_answered_a_question_works_again_after_another_key_or_a_click(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = commands(world, monkeypatch)
    sync = ["sync", "now", "demo-aaaaaa"]

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        await pilot.press("x", "y", "j", "y")
        await until(pilot, lambda: started[1:] == [sync])
        await pilot.press("x", "y")
        await pilot.click(offset=(20, 3))
        await pilot.press("y")
        await until(pilot, lambda: started[3:] == [sync])
        await pilot.press("x", "y", "y", "y")
        await until(pilot, lambda: started[5:] == [sync])

    drive(world.board(), use)


@pytest.mark.parametrize(
    ("answer", "key", "started_words"),
    [
        (Answer(0, '{"safe": true, "items": []}', ""), "y", ["hosts", "release", "box"]),
        (Answer(4, "", "box refuses connections"), "c", ["hosts", "check", "box"]),
    ],
)
def test_the_key_that_answers_about_a_release_does_not_act_on_the_screen_below(
    world: World, monkeypatch: pytest.MonkeyPatch, answer: Answer, key: str, started_words: list[str]
) -> None:
    started = commands(world, monkeypatch)
    board = world.board()

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        if key == "c":
            world.hosts(box={"ssh": "root@192.0.2.1"})
            await pilot.press("3")
            await shows(pilot, "– local", "box")
            await pilot.press("home")
        show_verdict(board, "box", answer)
        await until(pilot, lambda: isinstance(pilot.app.screen, Verdict | Unanswered))
        await pilot.press(key)
        await until(pilot, lambda: not isinstance(pilot.app.screen, Verdict | Unanswered))
        await pilot.press(key)
        await until(pilot, lambda: f"{key} answered the question" in said(pilot))
        assert started == [started_words]

    drive(board, use)


def test_two_enters_at_once_leave_the_screen_below(world: World) -> None:
    world.run("demo-aaaaaa")

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        await pilot.press("2")
        await until(pilot, lambda: isinstance(pilot.app.screen, RunScreen))
        await pilot.press("i", *"text")
        at_once(pilot, "enter", "enter")
        await until(pilot, lambda: isinstance(pilot.app.screen, RunScreen))
        await pilot.pause()
        assert [type(each) for each in pilot.app.screen_stack] == [RunsScreen, RunScreen]

    drive(world.board(), use)


def test_a_window_that_is_to_close_under_another_one_closes_after_it(world: World) -> None:
    world.run("demo-aaaaaa")

    async def use(pilot: Pilot[None]) -> None:
        board = pilot.app
        await shows(pilot, "demo-aaaaaa")
        below, over = Prompt("below", "", "", UNICODE), Prompt("over", "", "", UNICODE)
        await board.push_screen(below)
        await board.push_screen(over)
        below.dismiss(None)
        await pilot.pause()
        assert board.screen is over
        over.dismiss(None)
        over.dismiss(None)
        await until(pilot, lambda: len(board.screen_stack) == 1)
        assert isinstance(board.screen, RunsScreen)

    drive(world.board(), use)


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        ((*"abcd", "backspace", "backspace", "x"), "abx"),
        ((*"abcd", "left", "left", "y"), "abycd"),
        ((*"ab", "home", "z", "end", "e"), "zabe"),
        ((*"one", "space", *"two", "ctrl+w", "n"), "one n"),
    ],
)
def test_keys_reach_a_field_in_their_order(world: World, keys: tuple[str, ...], text: str) -> None:
    world.run("demo-aaaaaa")

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        await pilot.press("slash")
        field = pilot.app.screen.query_one("#filter", Input)
        await until(pilot, lambda: field.has_focus)
        at_once(pilot, *keys)
        await until(pilot, lambda: field.value == text)

    drive(world.board(), use)


LONG = "nobody knows where it is, and what it says of itself goes on for longer than any terminal is wide " * 3
ORPHANS = {"run_id": "demo-aaaaaa", "what": LONG, "may_be_ended": True, "count": 9, "processes": [{"pid": 7}] * 9}
HELD = {
    "release": {"safe": False, "items": [{"run_id": f"run-{each}", "what": LONG, "hint": LONG} for each in range(20)]},
    "safe release": {"safe": True, "items": []},
    "unanswered release": None,
    "reap": {"runs": [ORPHANS, {**ORPHANS, "may_be_ended": False}] * 9},
    "removal": {"host_error": LONG, "given_up": {"sentences": [LONG] * 30}, "kept_home": [1]},
}


@pytest.mark.parametrize("size", [(1, 1), (20, 5), (80, 24), (500, 200)])
def test_windows_that_ask_about_a_host_or_runs_open_are_resized_and_close_at_every_size(
    world: World, monkeypatch: pytest.MonkeyPatch, size: tuple[int, int]
) -> None:
    started = commands(world, monkeypatch)
    board = world.board()
    answers: list[Answer] = []

    def ask(_words: Sequence[str], tell: Callable[[Answer], None]) -> Callable[[], None]:
        tell(answers[-1])
        return nothing

    monkeypatch.setattr(operations, "ask", ask)

    async def use(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: board.snapshot.runs)
        for window, held in HELD.items():
            answers.append(Answer(4, "", LONG) if held is None else Answer(0, json.dumps(held), ""))
            if window == "removal":
                Removal(board, board.snapshot.runs).begin()
            else:
                (ask_reap if window == "reap" else ask_release)(board, "box")
            await until(pilot, lambda: isinstance(board.screen, Question | Verdict | Unanswered))
            for now in ((30, 8), size):
                await pilot.resize_terminal(*now)
                await pilot.press("down", "pagedown")
                await pilot.pause()
                assert [each.cell_length for each in strips(board)] == [now[0]] * now[1]
            await pilot.press("escape")
            await until(pilot, lambda: isinstance(board.screen, RunsScreen))
        assert started == []

    drive(board, use, size)
