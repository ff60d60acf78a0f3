"""The filter, the order and the grouping of Runs outlast a restart; whatever the file holds, the dashboard starts."""

from __future__ import annotations

import json

import pytest
from textual.pilot import Pilot

from armada.tui import remembered
from armada.tui.remembered import Listed
from armada.tui.screens.runs import RunsScreen
from tests.tui.conftest import World, drive, lacks, shows, until


def the_list(pilot: Pilot[None]) -> RunsScreen:
    first = pilot.app.screen_stack[0]
    assert isinstance(first, RunsScreen)
    return first


def arrangement(pilot: Pilot[None]) -> tuple[str, str, bool]:
    known = the_list(pilot).arrangement
    return known.query.text, known.sort, known.reverse


def two_runs(world: World) -> None:
    world.run("a-aaaaaa", name="ant", host="near")
    world.run("b-bbbbbb", name="bee", host="far")


def test_the_last_filter_and_order_come_back(world: World) -> None:
    two_runs(world)

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "ant", "bee")
        await pilot.press("s", "S", "slash", *"host:far", "enter")
        await until(pilot, lambda: remembered.listing(world.home) == Listed("host:far", "name", reverse=True))

    async def use_again(pilot: Pilot[None]) -> None:
        await shows(pilot, "bee", "/ host:far", "by name reversed")
        await lacks(pilot, "aaaaaa")
        await pilot.press("escape", "S")
        await shows(pilot, "aaaaaa")
        await until(pilot, lambda: remembered.listing(world.home) == Listed("", "name"))

    drive(world.board(), use)
    drive(world.board(), use_again)


def test_a_filter_is_remembered_when_it_is_whole_and_without_an_error(world: World) -> None:
    two_runs(world)

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "ant", "bee")
        await pilot.press("slash", *"bee")
        await until(pilot, lambda: arrangement(pilot)[0] == "bee")
        assert remembered.listing(world.home) == Listed()
        await pilot.press("enter")
        await until(pilot, lambda: remembered.listing(world.home).words == "bee")
        await pilot.press("slash", *" (", "enter")
        await until(pilot, lambda: arrangement(pilot)[0] == "bee (")
        assert remembered.listing(world.home).words == "bee"

    drive(world.board(), use)


def test_read_only_shows_what_is_remembered_and_remembers_nothing(world: World) -> None:
    two_runs(world)
    remembered.keep_listing(world.home, Listed("bee", "host", reverse=True))
    before = (world.home.state / "dashboard" / "chosen.json").read_bytes()

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "bee")
        assert arrangement(pilot) == ("bee", "host", True)
        await pilot.press("escape", "s")
        await shows(pilot, "aaaaaa")
        assert arrangement(pilot) == ("", "progress", True)

    drive(world.board(read_only=True), use)
    assert (world.home.state / "dashboard" / "chosen.json").read_bytes() == before


@pytest.mark.parametrize(
    "kept",
    [
        "{",
        "[]",
        '{"runs": 7}',
        '{"runs": {"filter": ["x"], "sort": {"a": 1}, "reverse": "yes", "group": []}}',
        json.dumps({"runs": {"filter": "x" * 5000, "sort": "y" * 5000}}),
        json.dumps({"runs": {"filter": "bell\u0007", "sort": "of a later armada", "group": "its own"}}),
    ],
)
def test_a_broken_value_is_the_usual_list(world: World, kept: str) -> None:
    two_runs(world)
    file = world.home.state / "dashboard" / "chosen.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(kept)

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "ant", "bee", "by urgency")
        assert arrangement(pilot) == ("", "urgency", False)
        await lacks(pilot, "grouped by")

    drive(world.board(), use)


def test_the_last_grouping_comes_back_and_a_setting_groups_while_it_is_a_column(world: World) -> None:
    two_runs(world)

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "ant", "bee")
        await pilot.press("b")
        await until(pilot, lambda: remembered.listing(world.home) == Listed(group="host"))

    async def use_again(pilot: Pilot[None]) -> None:
        await shows(pilot, "grouped by host", "far", "near", "1 run")

    drive(world.board(), use)
    drive(world.board(), use_again)
    remembered.keep_columns(world.home, ["train.learning_rate"])
    remembered.keep_listing(world.home, Listed(group="train.learning_rate"))

    async def use_column(pilot: Pilot[None]) -> None:
        await shows(pilot, "ant", "bee")
        await until(pilot, lambda: the_list(pilot).arrangement.group == "train.learning_rate")
        remembered.keep_columns(world.home, [])

    async def use_without(pilot: Pilot[None]) -> None:
        await shows(pilot, "ant", "bee")
        assert the_list(pilot).arrangement.group == "nothing"

    drive(world.board(), use_column)
    drive(world.board(), use_without)


def test_a_remembered_text_that_is_no_filter_is_said_and_can_be_cleared(world: World) -> None:
    two_runs(world)
    remembered.keep_listing(world.home, Listed("loss<("))

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "/ loss<(")
        await pilot.press("escape")
        await shows(pilot, "ant", "bee")

    drive(world.board(), use)


def test_a_store_of_a_later_armada_does_not_stop_it(world: World) -> None:
    two_runs(world)
    remembered.keep_listing(world.home, Listed("lr>1e-5", "lr", reverse=True))
    world.database.connection.execute("PRAGMA user_version = 9999")

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "the store cannot be read")

    drive(world.board(), use)
    assert remembered.listing(world.home) == Listed("lr>1e-5", "lr", reverse=True)
