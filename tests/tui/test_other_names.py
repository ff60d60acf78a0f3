"""The other names of a key: `q` closes what `esc` closes, `=` zooms as `+` does, `delete` removes as `d` does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from textual.pilot import Pilot

from armada.tui.operations import Answer
from armada.tui.screens import outside
from armada.tui.screens.chooser import Choice, Chooser
from armada.tui.screens.launch import LaunchScreen
from armada.tui.screens.preview_window import PreviewWindow
from armada.tui.screens.run import RunScreen
from armada.tui.screens.runs import RunsScreen
from armada.tui.screens.setting_editor import SettingEditor
from armada.tui.screens.tour import Tour
from armada.tui.screens.verdict import show_verdict
from armada.tui.symbols import UNICODE
from armada.tui.widgets.chart import Chart
from armada.tui.widgets.log_view import LogView
from armada.tui.widgets.text_scroll import TextScroll
from tests.tui.conftest import World, drive, heard, lacks, said, screen, shows, until
from tests.tui.test_command_line import opened as command_line
from tests.tui.test_compare import fill
from tests.tui.test_compare import opened as compared
from tests.tui.test_remaining_keys import span


@pytest.mark.parametrize(
    ("opens", "words", "closes"),
    [
        ("question_mark", "─ Keys ─", ("q", "question_mark", "enter")),
        ("7", "nothing was started", ("q", "7")),
        ("8", "notifications.yaml says", ("q", "8")),
        ("x", "Stop 1 run?", ("q",)),
    ],
)
def test_a_window_is_closed_by_each_of_its_keys(world: World, opens: str, words: str, closes: tuple[str, ...]) -> None:
    world.run("demo-aaaaaa")

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        for key in closes:
            await pilot.press(opens)
            await shows(pilot, words)
            await pilot.press(key)
            await until(pilot, lambda: isinstance(pilot.app.screen, RunsScreen))
            await lacks(pilot, words)
        assert pilot.app.is_running
        assert heard(pilot) == []

    drive(world.board(), use, (160, 60))


def test_the_output_of_a_command_is_closed_by_each_of_its_keys(world: World) -> None:
    fill(world)

    async def use(pilot: Pilot[None]) -> None:
        view = await compared(pilot)
        await pilot.press("j")
        for key in ("q", "enter"):
            await pilot.press("d")
            await shows(pilot, "train.learning_rate", "copy command")
            await pilot.press(key)
            await until(pilot, lambda: pilot.app.screen is view)

    drive(world.board(), use)


@pytest.mark.parametrize("opens", ["7", "8"])
def test_f1_explains_the_keys_of_a_window(world: World, opens: str) -> None:
    async def use(pilot: Pilot[None]) -> None:
        await pilot.press(opens)
        await shows(pilot, "close")
        await pilot.press("f1")
        await shows(pilot, "Copy the command under the cursor" if opens == "7" else "Copy the message under the cursor")

    drive(world.board(), use)


def test_the_tour_is_walked_by_each_of_its_keys(world: World) -> None:
    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "1 of 5")
        for on, back in (("right", "k"), ("j", "p"), ("n", "up"), ("down", "backspace"), ("space", "left")):
            await pilot.press(on)
            await shows(pilot, "2 of 5")
            await pilot.press(back)
            await shows(pilot, "1 of 5")
        await pilot.press("q")
        await until(pilot, lambda: not isinstance(pilot.app.screen, Tour))
        assert pilot.app.is_running

    drive(world.board(is_new=True), use)


def test_the_verdict_about_a_host_is_left_by_each_of_its_keys(world: World) -> None:
    board = world.board()

    async def use(pilot: Pilot[None]) -> None:
        await pilot.press("3")
        await shows(pilot, "– local")
        for key in ("n", "q", "enter"):
            show_verdict(board, "local", Answer(0, '{"safe": true, "scheduler": "direct", "items": []}', ""))
            await shows(pilot, "release it")
            await pilot.press(key)
            await lacks(pilot, "release it")
        assert heard(pilot) == []

    drive(board, use)


def test_a_list_to_choose_from_goes_up_and_down_by_pages(world: World) -> None:
    board = world.board()
    taken: list[str | None] = []

    async def use(pilot: Pilot[None]) -> None:
        chooser = Chooser("Which?", [Choice(f"c{number:02}", f"choice {number:02}") for number in range(40)], UNICODE)
        board.push_screen(chooser, taken.append)
        await shows(pilot, "choice 00")
        for key, place in (("pagedown", "c10"), ("down", "c11"), ("up", "c10"), ("pagedown", "c20"), ("pageup", "c10")):
            await pilot.press(key)
            assert chooser.table.cursor == place, key
        await pilot.press("enter")
        await until(pilot, lambda: taken == ["c10"])

    drive(board, use)


def test_shift_tab_completes_backwards(world: World) -> None:
    async def use(pilot: Pilot[None]) -> None:
        field = await command_line(pilot)
        await pilot.press("s", "tab")
        first = field.value
        await pilot.press("tab")
        await until(pilot, lambda: field.value != first)
        await pilot.press("shift+tab")
        await until(pilot, lambda: field.value == first)

    drive(world.board(), use)


@pytest.mark.parametrize("where", ["run", "compare"])
def test_the_equals_sign_zooms_in_as_plus_does(world: World, where: str) -> None:
    fill(world)
    board = world.board()

    async def use(pilot: Pilot[None]) -> None:
        if where == "compare":
            chart = (await compared(pilot)).chart
        else:
            await shows(pilot, "one-aaaaaa")
            board.open_run("one-aaaaaa", "charts")
            await shows(pilot, "loss (1 of 2)")
            view = board.screen
            assert isinstance(view, RunScreen)
            chart = view.wall.query(Chart).first()
        await until(pilot, lambda: span(chart)[0] < span(chart)[1])
        whole = span(chart)
        await pilot.press("equals_sign")
        await until(pilot, lambda: span(chart)[1] - span(chart)[0] < whole[1] - whole[0])

    drive(board, use)


def test_shift_l_on_charts_changes_the_scale_and_w_opens_the_runs_page(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.run("demo-aaaaaa", step=100, total_steps=100)
    world.losses("demo-aaaaaa", [3.0 / (1 + step) for step in range(100)])
    monkeypatch.setattr(outside, "has_browser", lambda: False)

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        await pilot.press("enter", "c")
        await shows(pilot, "loss (1 of 2)")
        await pilot.press("L")
        await shows(pilot, "(log)")
        await pilot.press("w")
        await until(pilot, lambda: "demo-aaaaaa has no page" in said(pilot))

    drive(world.board(), use)


def test_delete_removes_the_run_in_sight_and_the_host_under_the_cursor(world: World) -> None:
    world.hosts(box={"ssh": "root@192.0.2.1"})
    world.run("demo-aaaaaa", host="local", state="failed", observed_at=None)

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        await pilot.press("2")
        await until(pilot, lambda: isinstance(pilot.app.screen, RunScreen))
        await pilot.press("delete")
        await shows(pilot, "Remove 1 run?")
        await pilot.press("n", "3")
        await shows(pilot, "– box")
        await pilot.press("home", "delete")
        await shows(pilot, "Remove box?")
        await pilot.press("n")
        await lacks(pilot, "Remove box?")

    drive(world.board(), use)


def test_the_equals_sign_shortens_the_history_of_a_host_as_plus_does(world: World) -> None:
    world.hosts(box={"ssh": "root@192.0.2.1"})

    async def use(pilot: Pilot[None]) -> None:
        await pilot.press("3")
        await shows(pilot, "– box", "15 m")
        await pilot.press("minus")
        await lacks(pilot, "15 m")
        await pilot.press("equals_sign")
        await shows(pilot, "15 m")

    drive(world.board(), use, (160, 48))


def test_a_setting_is_left_as_it_was_and_the_data_closed_by_each_of_its_keys(world: World) -> None:
    Path("exp.yaml").write_text("task: command\nname: one\ncommand: [python, train.py]\n")

    async def use(pilot: Pilot[None]) -> None:
        await pilot.press("5")
        view = pilot.app.screen
        assert isinstance(view, LaunchScreen)
        view.fields["experiment"].value = "exp.yaml"
        await until(pilot, lambda: view.form.form is not None)
        await pilot.press("escape")
        await until(pilot, lambda: view.form.table.has_focus)
        await pilot.press("slash", *"stop", "enter", "enter")
        await until(pilot, lambda: isinstance(pilot.app.screen, SettingEditor))
        await pilot.press("7", "escape")
        await until(pilot, lambda: pilot.app.screen is view)
        assert view.changes == []
        for key in ("q", "v"):
            pilot.app.push_screen(PreviewWindow("Data", ["one row"]))
            await shows(pilot, "one row")
            await pilot.press(key)
            await until(pilot, lambda: pilot.app.screen is view)

    drive(world.board(), use)


# Up, down and pages -------------------------------------------------------------------------------------------------


async def walk(pilot: Pilot[None], place: Callable[[], int], *keys: tuple[str, int]) -> None:
    """Press each key, and see the place change by a line, or by a page, which is three lines or more."""
    for key, by in keys:
        before = place()

        def moved(before: int = before, by: int = by) -> bool:
            change = place() - before
            return change == by if abs(by) == 1 else change * by >= by * by

        await pilot.press(key)
        await until(pilot, moved)


PAGES = (("pagedown", 3), ("pageup", -3), ("down", 1), ("up", -1), ("j", 1), ("k", -1))


def test_a_list_of_runs_goes_by_lines_and_pages(world: World) -> None:
    for number in range(60):
        world.run(f"r{number:02}-aaaaaa")

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "r59-aaaaaa")
        view = pilot.app.screen
        assert isinstance(view, RunsScreen)

        def place() -> int:
            return [entry.key for entry in view.table.entries if entry.kind == "row"].index(view.table.cursor or "")

        await walk(pilot, place, *PAGES)

    drive(world.board(), use)


def test_a_log_goes_by_lines_and_pages(world: World) -> None:
    world.local_log("demo-aaaaaa", "".join(f"{number}\n" for number in range(2000)))

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        await pilot.press("l")
        await shows(pilot, "1999")
        view = pilot.app.screen.query_one(LogView)
        await pilot.press("home")
        await until(pilot, lambda: view.picture.startswith("0\n"))
        await walk(pilot, lambda: int(view.picture.split()[0]), *PAGES)

    drive(world.board(), use)


def test_a_text_goes_by_lines_and_pages_and_to_its_ends_and_to_the_match_before(world: World) -> None:
    settings = {f"key{number:03}": number for number in range(100)}
    world.run("demo-aaaaaa", spec={"job": {"argv": ["true"]}, "experiment": {"env": settings}})

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        await pilot.press("2", "f")
        await shows(pilot, "key000")
        text = pilot.app.focused
        assert isinstance(text, TextScroll)

        def at() -> int:
            return int(text.scroll_offset.y)

        await walk(pilot, at, *PAGES)
        await pilot.press("end")
        await until(pilot, lambda: at() == text.max_scroll_y)
        await pilot.press("home")
        await until(pilot, lambda: at() == 0)
        await pilot.press("slash", *"key05", "enter")
        await until(pilot, lambda: "key050" in screen(pilot).splitlines()[3])
        await pilot.press("n")
        await until(pilot, lambda: "key051" in screen(pilot).splitlines()[3])
        await pilot.press("N")
        await until(pilot, lambda: "key050" in screen(pilot).splitlines()[3])

    drive(world.board(), use, (100, 24))
