"""What holds on every screen: windows in frames, fields without control characters, what Escape and U bring back."""

from __future__ import annotations

from textual import events
from textual.pilot import Pilot

from armada.tui import remembered
from armada.tui.screens.columns import ColumnsWindow
from armada.tui.screens.compare import CompareScreen
from armada.tui.screens.prompt import Prompt
from armada.tui.screens.question import Question
from armada.tui.screens.runs import RunsScreen
from armada.tui.widgets.field import Field
from tests.tui.conftest import World, drive, lacks, said, screen, shows, strips, until


def three(world: World) -> None:
    for run_id, rate in (("one-aaaaaa", 3e-4), ("two-bbbbbb", 1e-5), ("six-cccccc", None)):
        train = {"learning_rate": rate} if rate is not None else {}
        world.run(run_id, spec={"job": {"argv": []}, "experiment": {"train": train, "unset": None}})


def test_windows_have_their_title_and_keys_in_the_frame_and_danger_has_a_shape_of_its_own(world: World) -> None:
    board = world.board()

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "no daemon")
        await pilot.press("V")
        lines = (await shows(pilot, "Save this view as")).splitlines()
        assert any("╭─ Save this view as ─" in line for line in lines)
        assert any("enter continues  esc cancels ─╯" in line for line in lines)
        await pilot.press("escape", "ctrl+p")
        lines = (await shows(pilot, "Add tags to these runs")).splitlines()
        assert any("╭─ Find an action ─" in line for line in lines)
        await pilot.press("escape")
        board.push_screen(Question("Drop it?", ["x"], "gone", "drop it", board.symbols, danger=True))
        lines = (await shows(pilot, "▲ Drop it?")).splitlines()
        assert any("┏━ ▲ Drop it? ━" in line for line in lines)
        await pilot.press("n")
        board.push_screen(Question("A" * 150, ["x"], "gone", "drop it", board.symbols))
        await until(pilot, lambda: screen(pilot).replace("\n", "").count("A") > 150)  # it does not fit into the edge

    drive(board, use, (100, 30))


def test_no_control_character_comes_into_a_field(world: World) -> None:
    board = world.board()
    answers: list[str | None] = []

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "no daemon")
        board.push_screen(Prompt("Where?", "", "a\x00b\x1b[31m", board.symbols), answers.append)
        await shows(pilot, "Where?")
        field = board.screen.query_one(Field)
        assert field.value == "ab[31m"
        field.value = ""
        field.post_message(events.Paste("x\x00y\x1b]52;c;z\x07\u202e\tend\nsecond line"))
        await until(pilot, lambda: field.value)
        assert field.value == "xy]52;c;z end"
        assert field.cursor_position == len(field.value)
        await pilot.press("ctrl+j", "1", "enter")
        await until(pilot, lambda: answers)
        assert "\x00" not in (answers[0] or "")
        assert (answers[0] or "").isprintable()

    drive(board, use)


def test_escape_from_a_run_that_compare_opened_goes_back_to_compare(world: World) -> None:
    three(world)
    board = world.board()

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "3 of 3 runs")
        await pilot.press("space", "space", "c")
        await until(pilot, lambda: isinstance(board.screen, CompareScreen) and board.screen.run_ids)
        await pilot.press("enter")
        await shows(pilot, "overview", "checkpoints")
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(board.screen, CompareScreen))
        await pilot.press("enter")
        await shows(pilot, "overview", "checkpoints")
        await pilot.press("4", "escape")  # another screen takes the place of both
        await until(pilot, lambda: isinstance(board.screen, RunsScreen))

    drive(board, use)


def test_a_column_sorts_by_a_click_on_its_title_and_the_choice_of_columns_is_undone(world: World) -> None:
    three(world)
    remembered.keep_columns(world.home, ["name", "host"])
    board = world.board()

    def order(pilot: Pilot[None]) -> list[str]:
        lines = [strip.text for strip in strips(pilot.app)]
        return [word for line in lines for word in ("one", "two", "six") if f"{word}-" in line and "│" in line[:2]]

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "3 of 3 runs", "HOST")
        view = board.screen
        assert isinstance(view, RunsScreen)
        await pilot.press("C")
        field = await _field(pilot)
        field.value = "name,lr"
        await pilot.press("enter")
        await shows(pilot, "LEARNING_RATE", "0.0003")
        head = next(strip.text for strip in strips(board) if "LEARNING_RATE" in strip.text)
        place = (head.index("LEARNING_RATE") - view.table.region.x, 1)
        await pilot.click(view.table, offset=place)
        await shows(pilot, "by train.learning_rate")
        await until(pilot, lambda: order(pilot)[:3] == ["two", "one", "six"])
        await pilot.click(view.table, offset=place)
        await shows(pilot, "by train.learning_rate reversed")
        await until(pilot, lambda: order(pilot)[:3] == ["six", "one", "two"])
        await pilot.press("U")
        await until(pilot, lambda: order(pilot)[:3] == ["two", "one", "six"])
        await pilot.press("U")
        await shows(pilot, "by urgency", "LEARNING_RATE")
        await pilot.press("U")
        await lacks(pilot, "LEARNING_RATE")
        assert "columns as before: name, host" in said(pilot)
        assert remembered.columns(world.home) == ["name", "host"]
        await shows(pilot, "by urgency")
        await pilot.press("U")
        await until(pilot, lambda: "there is nothing to undo" in said(pilot))

    drive(board, use)


async def _field(pilot: Pilot[None]) -> Field:
    await until(pilot, lambda: isinstance(pilot.app.screen, Prompt | ColumnsWindow))
    return pilot.app.screen.query_one(Field)


def test_a_setting_without_a_value_is_not_drawn_as_null(world: World) -> None:
    three(world)

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "3 of 3 runs")
        await pilot.press("enter", "f")
        await shows(pilot, "unset", "not set")
        assert "null" not in screen(pilot)

    drive(world.board(), use)
