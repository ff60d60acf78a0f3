"""A table scrolls by whole rows: the first line in sight begins one, and the lines under the cursor's row are in sight."""

from __future__ import annotations

import pytest
from textual.pilot import Pilot

from armada.store import runs
from armada.tui.screens.runs import RunsScreen
from armada.tui.widgets.run_table import RunTable
from armada.verdicts.states import Verdict
from tests.tui.conftest import World, drive, shows, until


@pytest.mark.parametrize("keys", [("down",), ("pagedown",)])
def test_the_first_line_in_sight_begins_a_row(world: World, keys: tuple[str, ...]) -> None:
    for number in range(30):
        world.run(f"run-{number:02}aaaa", state="failed", reason="oom", message="out of memory")

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "30 of 30 runs")
        view = pilot.app.screen
        assert isinstance(view, RunsScreen)
        table = view.table
        for _ in range(28):
            before = table.cursor
            await pilot.press(*keys)
            await until(pilot, lambda before=before: table.cursor != before or table.cursor == last)  # type: ignore[misc]
            top = int(table.scroll_offset.y)
            room = table.size.height - 1
            lines = [entry.key for entry in table.entries[top : top + room]]
            assert table.entries[top].kind == "row"
            assert lines.count(str(table.cursor)) == 2, "its reason is in sight, too"

    last = f"run-{0:02}aaaa"
    drive(world.board(), use, (80, 24))


@pytest.mark.parametrize("rows", [21, 22, 23, 24])
def test_a_row_begins_the_table_at_its_end_and_when_lines_above_it_come_and_go(world: World, rows: int) -> None:
    for number in range(30):
        world.run(f"run-{number:02}aaaa", state="failed", reason="oom", message="out of memory")

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "30 of 30 runs")
        view = pilot.app.screen
        assert isinstance(view, RunsScreen)
        table = view.table
        await pilot.press("end")
        await until(pilot, lambda: table.cursor == "run-00aaaa" and table.scroll_y > 0)
        assert table.entries[int(table.scroll_offset.y)].kind == "row"
        await pilot.press("home", *["down"] * 15)
        await until(pilot, lambda: table.cursor == "run-14aaaa" and 0 < table.scroll_y < 30)
        before = list(table.entries)
        table.show([before[0], *before[2:]])
        assert table.entries[int(table.scroll_offset.y)].kind == "row"
        table.show(before)
        assert table.entries[int(table.scroll_offset.y)].kind == "row"
        assert "run-14aaaa" in table.visible_keys

    drive(world.board(), use, (80, rows))


def test_the_bar_stands_where_the_list_is_after_a_size_at_which_it_was_hidden(world: World) -> None:
    for number in range(20):
        world.run(f"run-{number:02}-aaaaaa", state="succeeded")

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "20 runs")
        view = pilot.app.screen
        assert isinstance(view, RunsScreen)
        table = view.table
        await pilot.press(*["down"] * 10)
        await until(pilot, lambda: table.scroll_y > 0 and table.vertical_scrollbar.position == table.scroll_y)
        await pilot.resize_terminal(80, 100)
        await until(pilot, lambda: table.scroll_y == 0 and not table.show_vertical_scrollbar)
        await pilot.resize_terminal(80, 25)
        await until(pilot, lambda: table.show_vertical_scrollbar)
        assert table.vertical_scrollbar.position == table.scroll_y == 0

    drive(world.board(), use, (80, 14))


def many(pilot: Pilot[None]) -> RunTable:
    view = pilot.app.screen
    assert isinstance(view, RunsScreen)
    return view.table


@pytest.mark.parametrize("key", ["s", "S"])
def test_a_new_order_keeps_the_run_under_the_cursor_in_sight(world: World, key: str) -> None:
    for number in range(60):
        world.run(f"run-{number:02}-aaaaaa")

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "60 of 60 runs")
        table = many(pilot)
        await pilot.press("down", "down")
        held, order = table.cursor, [entry.key for entry in table.entries]
        await pilot.press(key)
        await until(pilot, lambda: [entry.key for entry in table.entries] != order)
        assert table.cursor == held
        assert held in table.visible_keys

    drive(world.board(), use, (120, 30))


def test_rows_that_move_by_themselves_keep_the_run_under_the_cursor_in_sight(world: World) -> None:
    for number in range(60):
        world.run(f"run-{number:02}-aaaaaa")

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "60 of 60 runs")
        table = many(pilot)
        await pilot.press("down")
        held = str(table.cursor)
        runs.record(world.database, held, Verdict("succeeded", None, None, 1, 1, "evidence"), ended_at=1.0)
        await until(pilot, lambda: [entry.key for entry in table.entries][-1] == held)
        assert table.cursor == held
        assert held in table.visible_keys

    drive(world.board(), use, (120, 30))


def test_a_list_that_was_scrolled_away_from_the_cursor_stays_there_when_its_room_changes(world: World) -> None:
    for number in range(60):
        world.run(f"run-{number:02}-aaaaaa")

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "60 of 60 runs")
        table = many(pilot)
        await until(pilot, lambda: table.max_scroll_y >= 30)
        table.scroll_to(y=30, animate=False, immediate=True)
        await until(pilot, lambda: table.scroll_offset.y == 30)
        height = table.size.height
        await pilot.resize_terminal(120, 45)
        await until(pilot, lambda: table.size.height > height)
        assert table.scroll_offset.y == 30
        await pilot.press("down")  # the cursor's keys bring it back
        await until(pilot, lambda: table.cursor in table.visible_keys)
        await pilot.resize_terminal(120, 24)
        await until(pilot, lambda: table.size.height < height)
        assert table.cursor in table.visible_keys

    drive(world.board(), use, (120, 30))


def test_a_list_that_was_scrolled_away_from_the_cursor_stays_there_when_rows_move(world: World) -> None:
    for number in range(60):
        world.run(f"run-{number:02}-aaaaaa")

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "60 of 60 runs")
        table = many(pilot)
        await until(pilot, lambda: table.max_scroll_y >= 30)  # it says how many there are before it is laid out
        table.scroll_to(y=30, animate=False, immediate=True)
        await until(pilot, lambda: table.scroll_offset.y == 30)
        world.run("new-aaaaaa")
        await shows(pilot, "61 of 61 runs")
        assert table.scroll_offset.y == 30

    drive(world.board(), use, (120, 30))


@pytest.mark.parametrize("key", ["g", "home", "up", "e"])
def test_a_key_that_leaves_the_cursor_where_it_is_brings_it_in_sight(world: World, key: str) -> None:
    for number in range(60):
        world.run(f"run-{number:02}-aaaaaa")

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "60 of 60 runs")
        table = many(pilot)
        await pilot.press("e")
        held = str(table.cursor)
        table.scroll_to(y=30, animate=False, immediate=True)
        await until(pilot, lambda: table.scroll_offset.y == 30)
        await pilot.press(key)
        await until(pilot, lambda: held in table.visible_keys)
        assert table.cursor == held

    drive(world.board(), use, (120, 30))
