"""Commands that need a terminal get that of the dashboard: what they are told, and what is left of them afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pytest
from textual.pilot import Pilot

from armada.store import labels, runs
from armada.tui import acts
from armada.tui.screens import outside
from tests.tui.conftest import World, drive, said, shows, until
from tests.tui.test_command_line import typed

if TYPE_CHECKING:
    from armada.tui.app import Dashboard


def lends(monkeypatch: pytest.MonkeyPatch, board: Dashboard, code: int = 0) -> list[list[str]]:
    """Let the dashboard have a terminal to lend; return the commands that get it. Call it when the dashboard runs."""
    lent: list[list[str]] = []

    def command(*words: str) -> Sequence[str]:
        lent.append(list(words))
        return ["sh", "-c", f"exit {code}"]

    driver = board._driver  # noqa: SLF001  # Textual has no public name for it
    assert driver is not None
    monkeypatch.setattr(type(driver), "can_suspend", True)
    monkeypatch.setattr(driver, "suspend_application_mode", lambda: None)
    monkeypatch.setattr(driver, "resume_application_mode", lambda: None)
    monkeypatch.setattr(outside, "command", command)
    return lent


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("forward 6006", ["forward", "demo-aaaaaa", "6006"]),
        ("exec --tty demo-aaaaaa -- htop", ["exec", "--tty", "demo-aaaaaa", "--", "htop"]),
        ("note --edit", ["note", "--edit", "demo-aaaaaa"]),
        (
            "hosts provision far --ask-sudo-password fabfile.py:drivers",
            ["hosts", "provision", "far", "--ask-sudo-password", "fabfile.py:drivers"],
        ),
    ],
)
def test_a_command_that_needs_a_terminal_gets_that_of_the_dashboard(
    world: World, monkeypatch: pytest.MonkeyPatch, text: str, words: list[str]
) -> None:
    world.run("demo-aaaaaa")
    world.hosts(far={"ssh": "root@192.0.2.1"})
    board = world.board()

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        lent = lends(monkeypatch, board)
        await typed(pilot, text, "enter")
        await until(pilot, lambda: lent)
        assert lent == [words]
        await shows(pilot, "1 of 1 runs")

    drive(board, use)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("forward 6006", "forward"),
        ("exec -t demo-aaaaaa -- htop", "exec"),
        ("note --edit", "note"),
        ("hosts provision far --ask-sudo-password", "hosts provision"),
    ],
)
def test_a_browser_has_no_terminal_to_give_and_the_dashboard_says_what_to_type_in_one(
    world: World, monkeypatch: pytest.MonkeyPatch, text: str, name: str
) -> None:
    world.run("demo-aaaaaa")
    world.hosts(far={"ssh": "root@192.0.2.1"})
    board = world.board()

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        lent = lends(monkeypatch, board)
        monkeypatch.setattr(type(board), "is_web", True)
        await typed(pilot, text, "enter")
        words = f"{name} needs a terminal, and this is a browser; in a terminal: armada"
        await until(pilot, lambda: words in said(pilot))
        assert not lent

    drive(board, use)


def test_of_several_marked_runs_none_gets_the_terminal(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    for run_id in ("one-aaaaaa", "two-bbbbbb"):
        world.run(run_id)
    board = world.board()

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "one-aaaaaa")
        lent = lends(monkeypatch, board)
        await pilot.press("a")
        await typed(pilot, "forward 6006", "enter")
        await shows(pilot, "forward: 2 runs are selected, and it gets the terminal for one (name the run)")
        assert not lent

    drive(board, use)


def test_a_note_that_was_edited_is_an_act_that_is_undone(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.run("demo-aaaaaa")
    labels.set_note(world.database, "demo-aaaaaa", "two\nlines")
    board = world.board()

    def note() -> str | None:
        return runs.find(world.database, "demo-aaaaaa").note

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        lends(monkeypatch, board)
        await pilot.press("i")
        await until(pilot, lambda: "note: it has several lines; :note --edit opens it in your editor" in said(pilot))
        await typed(pilot, "note --edit", "enter")
        await until(pilot, lambda: acts.newest(world.home))
        labels.set_note(world.database, "demo-aaaaaa", "changed by the editor")
        await pilot.press("U")
        await until(pilot, lambda: note() == "two\nlines")

    drive(board, use)


def test_an_editor_that_failed_is_no_act(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.run("demo-aaaaaa")
    board = world.board()
    monkeypatch.setattr("armada.tui.lending.SOON_S", 0.0)

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        lends(monkeypatch, board, code=3)
        await typed(pilot, "note --edit", "enter")
        await until(pilot, lambda: "armada note --edit demo-aaaaaa ended with 3" in said(pilot))
        assert not acts.newest(world.home)

    drive(board, use)
