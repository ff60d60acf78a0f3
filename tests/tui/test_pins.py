"""Pinned runs stay at the top of Runs, whatever it is sorted and grouped by, and over a restart."""

from __future__ import annotations

import json

import pytest
from textual.pilot import Pilot

from armada.store import runs
from armada.tui import remembered
from armada.tui.pins import Pins
from armada.tui.screens.compare import CompareScreen
from armada.tui.screens.runs import RunsScreen
from tests.tui.conftest import World, drive, lacks, said, screen, shows, until

THREE = ("ant-aaaaaa", "bee-bbbbbb", "cat-cccccc")


def three(world: World) -> None:
    for run_id in THREE:
        world.run(run_id, name=run_id[:3], host=f"host-{run_id[0]}")


def listed(pilot: Pilot[None]) -> list[str]:
    """The keys of the lines, as they stand."""
    return [entry.key for entry in the_list(pilot).table.entries if entry.kind != "more"]


def the_list(pilot: Pilot[None]) -> RunsScreen:
    first = pilot.app.screen_stack[0]
    assert isinstance(first, RunsScreen)
    return first


async def is_listed(pilot: Pilot[None], *keys: str) -> None:
    await until(pilot, lambda: listed(pilot) == list(keys))


async def pin(pilot: Pilot[None], run_id: str) -> None:
    await until(pilot, lambda: the_list(pilot).table.shows(run_id))
    the_list(pilot).table.place(run_id)
    await pilot.press("P")
    await until(pilot, lambda: run_id in the_list(pilot).pins.ids)


def test_a_pinned_run_stays_at_the_top_in_every_order_and_over_a_restart(world: World) -> None:
    three(world)
    ant, bee, cat = THREE

    async def use(pilot: Pilot[None]) -> None:
        await pilot.press("s")  # by name
        await is_listed(pilot, ant, bee, cat)
        await pin(pilot, cat)
        await is_listed(pilot, cat, ant, bee)
        await shows(pilot, "↑ cat")
        assert the_list(pilot).table.cursor == cat
        assert "cat: pinned to the top" in said(pilot)
        await pilot.press("S")
        await is_listed(pilot, cat, bee, ant)
        await pin(pilot, ant)
        await is_listed(pilot, cat, ant, bee)  # among themselves they are in the order of the table

    async def use_again(pilot: Pilot[None]) -> None:
        await is_listed(pilot, cat, ant, bee)
        await pilot.press("S")
        await is_listed(pilot, ant, cat, bee)
        the_list(pilot).table.place(ant)
        await pilot.press("P")
        await is_listed(pilot, cat, ant, bee)
        assert the_list(pilot).table.cursor == ant
        assert "ant: no longer pinned" in said(pilot)
        await pilot.press("U")
        await is_listed(pilot, ant, cat, bee)
        assert "pinned as before: ant" in said(pilot)

    drive(world.board(), use)
    assert sorted(remembered.pinned(world.home)) == [ant, cat]
    drive(world.board(), use_again)
    assert sorted(remembered.pinned(world.home)) == [ant, cat]


def test_a_filter_that_excludes_a_pinned_run_hides_it(world: World) -> None:
    three(world)
    remembered.keep_pinned(world.home, ["cat-cccccc", "gone-dddddd"])

    async def use(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: listed(pilot)[:1] == ["cat-cccccc"])
        await pilot.press("slash", *"bee", "enter")
        await is_listed(pilot, "bee-bbbbbb")
        await pilot.press("escape")
        await until(pilot, lambda: listed(pilot)[:1] == ["cat-cccccc"])
        await pin(pilot, "bee-bbbbbb")
        assert remembered.pinned(world.home) == ["cat-cccccc", "bee-bbbbbb"]  # the one that was removed is forgotten

    drive(world.board(), use)


def test_grouped_a_pinned_run_stands_above_the_groups_and_again_in_its_own(world: World) -> None:
    three(world)
    ant, bee, cat = THREE
    remembered.keep_pinned(world.home, [bee])

    async def use(pilot: Pilot[None]) -> None:
        await pilot.press("s", "b")
        groups = ["host:host-a", ant, "host:host-b", f"{bee}\thost-b", "host:host-c", cat]
        await is_listed(pilot, "pinned:", bee, *groups)
        await shows(pilot, "pinned  1 run", "3 of 3 runs")
        await until(pilot, lambda: screen(pilot).count("↑ bee") == 2)
        the_list(pilot).table.place(bee)
        await pilot.press("left")
        await is_listed(pilot, "pinned:", "host:host-a", ant, "host:host-b", bee, "host:host-c", cat)
        await pilot.press("right")
        await is_listed(pilot, "pinned:", bee, *groups)
        assert the_list(pilot).table.cursor == bee
        the_list(pilot).table.place(f"{bee}\thost-b")
        await pilot.press("left", "right")  # the cursor comes back to its line in the group, not to the one at the top
        await until(pilot, lambda: the_list(pilot).table.cursor == f"{bee}\thost-b")

    drive(world.board(), use)


@pytest.fixture
def swept(world: World) -> World:
    for cell, name in enumerate(("one", "two", "six")):
        world.run(f"{name}-{cell}{cell}{cell}{cell}{cell}{cell}", name=name)
        world.database.connection.execute("UPDATE runs SET sweep = 'grid', cell = ? WHERE name = ?", (cell, name))
    world.run("ant-aaaaaa", name="ant")
    return world


def test_a_pinned_cell_stands_above_and_its_sweep_keeps_all_its_cells(swept: World) -> None:
    fold, two = "sweep:grid:", "two-111111"

    async def use(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: fold in listed(pilot))
        the_list(pilot).table.place(fold)
        await pilot.press("P")
        await until(pilot, lambda: "this row is several runs" in said(pilot))
        await pilot.press("right", "s")
        await until(pilot, lambda: the_list(pilot).table.shows(two))
        await pin(pilot, two)
        await is_listed(pilot, two, "ant-aaaaaa", fold, "one-000000", "six-222222", f"{two}\tgrid")
        await shows(pilot, "grid (3 cells)", "4 of 4 runs", "└ ↑ two")
        await pilot.press("left", "right")  # at the top it belongs to no row that folds
        assert len(listed(pilot)) == 6
        await pilot.press("slash", *"two", "enter")
        await is_listed(pilot, two, fold, f"{two}\tgrid")

    drive(swept.board(), use)


@pytest.mark.parametrize(
    ("columns", "shown"),
    [
        ([], "qwen-0.5b-lo"),
        (["name", "state"], "qwen-0.5b-lora-with"),
        (["id", "name"], "qwen-lora-as-long-as"),
        (["host", "state"], "workstation-under"),
    ],
)
def test_a_pinned_run_keeps_the_beginning_of_a_name_that_does_not_fit(
    world: World, columns: list[str], shown: str
) -> None:
    run_id = "qwen-lora-as-long-as-an-id-with-a-name-can-be-here-longer-aaaaaa"
    name = "qwen-0.5b-lora-with-a-name-that-is-longer-than-every-column-of-the-table-is-wide"
    world.run(run_id, name=name, host="workstation-under-my-desk-with-two-gpus-in-the-cellar-of-the-house")
    remembered.keep_pinned(world.home, [run_id])
    remembered.keep_columns(world.home, columns)

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, f"↑ {shown}", "1 of 1 run")
        await pilot.resize_terminal(240, 40)
        await shows(pilot, f"↑ {shown}", "What happened")

    drive(world.board(), use, (80, 24))


def test_marked_runs_are_pinned_together_and_columns_of_ones_own_have_the_sign(world: World) -> None:
    three(world)
    remembered.keep_columns(world.home, ["host", "state"])
    board = world.board()

    async def use(pilot: Pilot[None]) -> None:
        await pilot.press("s")
        await is_listed(pilot, *THREE)
        the_list(pilot).table.place("bee-bbbbbb")
        await pilot.press("space", "space", "P")
        await is_listed(pilot, "bee-bbbbbb", "cat-cccccc", "ant-aaaaaa")
        await shows(pilot, "↑ host-b", "↑ host-c")
        assert "2 runs: pinned to the top" in said(pilot)
        await pilot.press("question_mark")
        await shows(pilot, "Pin these runs to the top")

    drive(board, use)


def test_compare_begins_with_a_pinned_run(world: World) -> None:
    three(world)
    for run_id in THREE:
        world.losses(run_id, [0.5, 0.4])
    remembered.keep_pinned(world.home, ["ant-aaaaaa"])

    async def use(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: len(listed(pilot)) == 3)
        await pilot.press("a", "c")
        await until(pilot, lambda: isinstance(pilot.app.screen, CompareScreen))
        compare = pilot.app.screen
        assert isinstance(compare, CompareScreen)
        assert compare.run_ids[0] == "ant-aaaaaa"

    drive(world.board(), use)


def test_the_command_line_and_the_palette_pin(world: World) -> None:
    three(world)

    async def use(pilot: Pilot[None]) -> None:
        await pilot.press("s")
        await is_listed(pilot, *THREE)
        await pilot.press("G", "colon", *"pin", "enter")
        await until(pilot, lambda: listed(pilot)[0] == "cat-cccccc")
        await pilot.press("2", "colon", *"pin", "enter")  # on its own screen: the pin is taken away
        await until(pilot, lambda: "cat: no longer pinned" in said(pilot))
        await pilot.press("1")
        await is_listed(pilot, *THREE)
        await pilot.press("ctrl+p", *"pin these", "enter")
        await until(pilot, lambda: listed(pilot)[0] == "cat-cccccc")

    drive(world.board(), use)


def test_read_only_pins_until_it_is_closed(world: World) -> None:
    three(world)

    async def use(pilot: Pilot[None]) -> None:
        await pin(pilot, "ant-aaaaaa")
        await until(pilot, lambda: listed(pilot)[0] == "ant-aaaaaa")

    drive(world.board(read_only=True), use)
    assert remembered.pinned(world.home) == []


def test_a_terminal_without_utf8_shows_pins(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANG", "C")
    three(world)
    remembered.keep_pinned(world.home, ["ant-aaaaaa"])

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "^ ant")
        await lacks(pilot, "↑")

    drive(world.board(), use)


@pytest.mark.parametrize("text", ['{"pinned": 7}', '{"pinned": [1, "", {}, null]}', "[", '{"pinned": {"a": 1}}'])
def test_whatever_the_file_holds_the_dashboard_starts(world: World, text: str) -> None:
    three(world)
    file = world.home.state / "dashboard" / "chosen.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)

    async def use(pilot: Pilot[None]) -> None:
        await pin(pilot, "ant-aaaaaa")

    board = world.board()
    file.write_text(text)
    drive(board, use)
    assert json.loads(file.read_text())["pinned"] == ["ant-aaaaaa"]


def test_two_dashboards_keep_each_others_pins_and_the_number_is_limited(world: World) -> None:
    one, other = Pins(world.home, writes=True), Pins(world.home, writes=True)
    assert one.set(["a"], on=True)
    assert other.set(["b"], on=True)
    assert remembered.pinned(world.home) == ["a", "b"]
    assert not one.set([f"run-{number}" for number in range(remembered.MOST_PINNED)], on=True)
    assert one.set(["a"], on=False)
    assert remembered.pinned(world.home) == ["b"]
    assert Pins(world.home, writes=True).ids == {"b"}


def test_a_removed_run_leaves_the_list(world: World) -> None:
    three(world)
    remembered.keep_pinned(world.home, ["ant-aaaaaa"])

    async def use(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: listed(pilot)[:1] == ["ant-aaaaaa"])
        runs.delete(world.database, "ant-aaaaaa")
        await until(pilot, lambda: "ant-aaaaaa" not in listed(pilot))

    drive(world.board(), use)
