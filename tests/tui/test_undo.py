"""`U` undoes the newest act, and none before it while it runs; what failed to be undone can be undone still."""

from __future__ import annotations

import json
import time
from collections.abc import Collection

import pytest
from textual.pilot import Pilot

from armada.foundation.process_identity import current
from armada.store import labels, runs
from armada.tui import acts, remembered
from armada.tui.screens.hosts import HostsScreen
from armada.tui.screens.runs import RunsScreen
from tests.tui.conftest import World, drive, lacks, said, screen, shows, until
from tests.tui.test_command_line import typed
from tests.tui.test_history import starred


def record(world: World, title: str, undo: str, *, ended: bool) -> acts.Act:
    """Record an act as the dashboard does; one that has not `ended` runs as long as the test."""
    log = acts.new_log(world.home, "star")
    acts.record(log, title=title, words=["star", "demo-aaaaaa"], process=current(), undo=[undo.split()])
    if ended:
        acts.record_end(log, 0)
    act = acts.read(log)
    assert act is not None
    return act


def test_while_the_newest_act_runs_no_older_one_is_undone(world: World) -> None:
    world.run("demo-aaaaaa", state="succeeded")
    labels.star(world.database, "demo-aaaaaa", on=True)
    older = record(world, "older", "star demo-aaaaaa --off", ended=True)
    newer = record(world, "newer", "group demo-aaaaaa --clear", ended=False)

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        await pilot.press("U")
        await until(pilot, lambda: "newer: it still runs" in said(pilot))
        assert acts.read(older.log) == older
        acts.record_end(newer.log, 1)
        await pilot.press("U")
        await until(pilot, lambda: not starred(world))

    drive(world.board(), use)


def test_while_an_act_runs_no_older_change_of_a_screen_is_undone(world: World) -> None:
    world.run("demo-aaaaaa", state="succeeded")

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        await pilot.press("P")
        await until(pilot, lambda: "demo-aaaaaa" in pins(pilot))
        record(world, "newer", "star demo-aaaaaa --off", ended=False)
        await pilot.press("U")
        await until(pilot, lambda: "newer: it still runs" in said(pilot))
        assert "demo-aaaaaa" in pins(pilot)

    drive(world.board(), use)


def test_after_the_clock_went_back_the_newest_is_undone_first(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.run("demo-aaaaaa", state="succeeded")
    labels.star(world.database, "demo-aaaaaa", on=True)

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        await pilot.press("P")
        await until(pilot, lambda: "demo-aaaaaa" in pins(pilot))
        earlier = time.time() - 3600
        with monkeypatch.context() as patched:
            patched.setattr(time, "time", lambda: earlier)
            act = record(world, "newer", "star demo-aaaaaa --off", ended=True)
        assert act.started_at == earlier
        await pilot.press("U")
        await shows(pilot, "Undo what was done")  # it is of an hour ago, so it asks
        await pilot.press("y")
        await until(pilot, lambda: not starred(world))
        assert "demo-aaaaaa" in pins(pilot)

    drive(world.board(), use)


def test_what_was_typed_with_the_first_characters_of_an_id_is_undone(world: World) -> None:
    for run_id in ("older-aaaaaa", "newer-bbbbbb"):
        world.run(run_id, state="succeeded")

    def stars() -> set[str]:
        return {run.run_id for run in runs.every(world.database) if run.starred_at is not None}

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "older-aaaaaa")
        for command in ("star older-aaaaaa", "star newer"):
            await typed(pilot, command, "enter")
            await until(pilot, lambda command=command: f"{command} done" in said(pilot))  # type: ignore[misc]
        assert stars() == {"older-aaaaaa", "newer-bbbbbb"}
        await pilot.press("U")
        await until(pilot, lambda: stars() == {"older-aaaaaa"})

    drive(world.board(), use)


@pytest.mark.parametrize("option", ["--where", "--where=is:ended"])
def test_what_cannot_be_undone_is_said_and_nothing_older_is_undone(world: World, option: str) -> None:
    world.run("demo-aaaaaa", state="succeeded")
    labels.star(world.database, "demo-aaaaaa", on=True)
    older = record(world, "older", "star demo-aaaaaa --off", ended=True)
    log = acts.new_log(world.home, "archive")
    acts.record(log, title="archive those", words=["archive", option, "is:ended"], process=current())
    acts.record_end(log, 0)

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        await pilot.press("U")
        await until(pilot, lambda: "archive those: it cannot be undone" in said(pilot))
        assert acts.read(older.log) == older
        assert starred(world)

    drive(world.board(), use)


def test_a_second_undo_reaches_the_pin_that_was_set_before_the_act(world: World) -> None:
    world.run("demo-aaaaaa", state="succeeded")
    board = world.board()

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        await pilot.press("P")
        await until(pilot, lambda: "demo-aaaaaa" in pins(pilot))
        await pilot.press("asterisk")
        await until(pilot, lambda: starred(world) and "star demo-aaaaaa done" in said(pilot))
        await until(pilot, lambda: board.snapshot.by_id["demo-aaaaaa"].run.starred_at is not None)
        await pilot.press("U")
        await until(pilot, lambda: "undo star demo-aaaaaa done" in said(pilot))
        await pilot.press("U")
        await until(pilot, lambda: not pins(pilot))
        assert not starred(world)

    drive(board, use)


def pins(pilot: Pilot[None]) -> Collection[str]:
    first = pilot.app.screen_stack[0]
    assert isinstance(first, RunsScreen)
    return first.pins.ids


def test_the_filter_and_the_marks_that_escape_took_away_are_brought_back(world: World) -> None:
    for run_id in ("one-aaaaaa", "two-bbbbbb"):
        world.run(run_id, state="succeeded")

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "2 of 2 runs")
        await pilot.press("a")
        await shows(pilot, "2 marked")
        await pilot.press("slash", *"two", "enter")
        await shows(pilot, "/ two", "1 of 2 runs")
        await pilot.press("escape", "escape", "escape")
        await lacks(pilot, "/ two", "2 marked")
        await pilot.press("U")
        await shows(pilot, "2 marked", "2 of 2 runs")
        assert "marked as before: 2 runs" in said(pilot)
        await pilot.press("U")
        await shows(pilot, "/ two", "1 of 2 runs")
        assert "filter as before: two" in said(pilot)

    drive(world.board(), use)
    assert remembered.listing(world.home).words == "two"


def test_the_filter_that_the_runs_of_a_host_replaced_is_brought_back(world: World) -> None:
    world.hosts(box={"ssh": "root@192.0.2.1"})
    world.run("one-aaaaaa", host="box")
    world.run("two-bbbbbb", host="box")

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "2 of 2 runs")
        await pilot.press("slash", *"two", "enter")
        await shows(pilot, "1 of 2 runs")
        await pilot.press("3")
        hosts = pilot.app.screen
        assert isinstance(hosts, HostsScreen)
        await until(pilot, lambda: hosts.table.shows("box"))
        hosts.table.place("box")
        await pilot.press("l")
        await shows(pilot, "/ host:box", "2 of 2 runs")
        await pilot.press("U")
        await shows(pilot, "/ two", "1 of 2 runs")

    drive(world.board(), use)


def test_what_a_command_failed_to_undo_can_be_undone_still(world: World) -> None:
    world.run("demo-aaaaaa", state="succeeded")
    act = record(world, "star it", "star gone-bbbbbb --off", ended=True)

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        await pilot.press("U")
        await until(pilot, lambda: "undo star it ended with" in said(pilot))
        await until(pilot, lambda: acts.read(act.log) == act)
        await pilot.press("7")
        await shows(pilot, "armada star demo-aaaaaa", "u undoes")

    drive(world.board(), use)


@pytest.mark.parametrize("name", ["-x", "--clear"])
def test_an_option_that_is_typed_as_a_group_is_refused_and_the_group_stays(world: World, name: str) -> None:
    world.run("demo-aaaaaa", state="succeeded")
    labels.set_group(world.database, "demo-aaaaaa", "g")

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        await pilot.press("B")
        await shows(pilot, "Group of demo-aaaaaa")
        await pilot.press("backspace", *name, "enter")
        await until(pilot, lambda: f"'{name}' cannot name a group" in said(pilot))
        assert runs.find(world.database, "demo-aaaaaa").group == "g"

    drive(world.board(), use)


def test_an_act_whose_record_has_no_possible_time_is_listed(world: World) -> None:
    world.run("demo-aaaaaa", state="succeeded")
    act = record(world, "star it", "star demo-aaaaaa --off", ended=True)
    labels.star(world.database, "demo-aaaaaa", on=True)
    told = json.loads(act.log.with_suffix(".json").read_text())
    act.log.with_suffix(".json").write_text(json.dumps(told | {"started_at": 10**400}))

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        await pilot.press("7")
        await shows(pilot, "armada star demo-aaaaaa", "done")
        await pilot.press("escape", "U")
        await until(pilot, lambda: not starred(world))

    drive(world.board(), use)


def listed(pilot: Pilot[None]) -> RunsScreen:
    first = pilot.app.screen_stack[0]
    assert isinstance(first, RunsScreen)
    return first


def test_order_and_groups_are_undone_step_by_step(world: World) -> None:
    for run_id in ("one-aaaaaa", "two-bbbbbb"):
        world.run(run_id, state="succeeded")

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "one-aaaaaa", "by urgency")
        a = listed(pilot).arrangement
        await pilot.press("s")
        first = a.sort
        assert first != "urgency"
        await pilot.press("s", "S", "b")
        second, group = a.sort, a.group
        assert (a.reverse, group) == (True, "host")
        await shows(pilot, f"by {second} reversed", "grouped by host")
        await pilot.press("U")
        await lacks(pilot, "grouped by host")
        await until(pilot, lambda: "groups as before: none" in said(pilot))
        await pilot.press("U")
        await lacks(pilot, f"by {second} reversed")
        await pilot.press("U")
        await shows(pilot, f"by {first}")
        await pilot.press("U")
        await shows(pilot, "by urgency")
        await until(pilot, lambda: "order as before: by urgency" in said(pilot))

    drive(world.board(), use)


def test_an_order_by_a_click_is_undone(world: World) -> None:
    world.run("demo-aaaaaa", state="succeeded")

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa", "by urgency")
        line = next(y for y, text in enumerate(screen(pilot).splitlines()) if " LOSS " in text)
        await pilot.click(offset=(screen(pilot).splitlines()[line].index("LOSS"), line))
        await shows(pilot, "by loss")
        await pilot.press("U")
        await shows(pilot, "by urgency")

    drive(world.board(), use)


def test_a_filter_that_was_typed_over_comes_back(world: World) -> None:
    for run_id in ("one-aaaaaa", "two-bbbbbb"):
        world.run(run_id, state="succeeded")

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "one-aaaaaa", "two-bbbbbb")
        await pilot.press("slash", *"one", "enter")
        await shows(pilot, "/ one", "1 of 2 runs")
        await pilot.press("slash", *["backspace"] * 3, *"two", "enter")
        await shows(pilot, "/ two")
        await pilot.press("slash", "enter")  # the same again is no change
        await pilot.press("U")
        await shows(pilot, "/ one", "one-aaaaaa")
        await until(pilot, lambda: "filter as before: one" in said(pilot))
        await pilot.press("U")
        await shows(pilot, "2 of 2 runs")
        await until(pilot, lambda: "filter as before: none" in said(pilot))

    drive(world.board(), use)
