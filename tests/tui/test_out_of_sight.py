"""Marked runs that the list leaves out are counted in its title, and no key acts on them without a word."""

from __future__ import annotations

from functools import partial

import pytest
from textual.pilot import Pilot

from armada.store import labels
from armada.tui.app import Dashboard
from armada.tui.screens.runs import RunsScreen
from tests.tui.conftest import World, drive, lacks, shows, until
from tests.tui.test_command_line import typed


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    found: list[list[str]] = []
    monkeypatch.setattr(Dashboard, "operate", lambda _, __, words, *___, **____: found.append(list(words)))
    return found


def the_list(pilot: Pilot[None]) -> RunsScreen:
    first = pilot.app.screen_stack[0]
    assert isinstance(first, RunsScreen)
    return first


def two_of_three(world: World) -> None:
    for name in ("hid-aaaaaa", "also-hid-bbbbbb", "seen-cccccc"):
        world.run(name, state="succeeded")


async def mark(pilot: Pilot[None], *run_ids: str) -> None:
    table = the_list(pilot).table
    for run_id in run_ids:
        await until(pilot, partial(table.shows, run_id))
        table.place(run_id)
        await pilot.press("space")
    await shows(pilot, f"{len(run_ids)} marked")


async def find(pilot: Pilot[None], word: str) -> None:
    await pilot.press("slash", *word, "enter")
    await until(pilot, lambda: the_list(pilot).table.has_focus)


@pytest.mark.parametrize(("key", "verb"), [("asterisk", "star"), ("z", "archive"), ("y", "sync")])
def test_an_act_on_marked_runs_that_the_filter_hides_asks_first(
    world: World, started: list[list[str]], key: str, verb: str
) -> None:
    two_of_three(world)

    async def use(pilot: Pilot[None]) -> None:
        await mark(pilot, "hid-aaaaaa", "seen-cccccc")
        await find(pilot, "seen")
        await shows(pilot, "2 marked, 1 not listed")
        await pilot.press(key)
        seen = await shows(pilot, f"{verb.capitalize()} 2 runs?", "1 marked run is not in the list", "not listed")
        assert seen.index("hid-aaaaaa on box, succeeded, not listed") < seen.index("seen-cccccc on box, succeeded")
        assert not started
        await pilot.press("y")
        await until(pilot, lambda: bool(started))

    drive(world.board(), use)
    assert [words[0] for words in started] == [verb]
    assert {"hid-aaaaaa", "seen-cccccc"} <= set(started[0])


def test_marked_runs_that_are_all_listed_are_acted_on_at_once(world: World, started: list[list[str]]) -> None:
    two_of_three(world)

    async def use(pilot: Pilot[None]) -> None:
        await mark(pilot, "hid-aaaaaa", "also-hid-bbbbbb")
        await find(pilot, "hid")
        await lacks(pilot, "not listed")
        await pilot.press("asterisk")
        await until(pilot, lambda: bool(started))

    drive(world.board(), use)


def test_pins_are_set_on_runs_that_the_filter_hides_after_a_question(world: World) -> None:
    two_of_three(world)

    async def use(pilot: Pilot[None]) -> None:
        await mark(pilot, "hid-aaaaaa", "also-hid-bbbbbb")
        await find(pilot, "seen")
        await pilot.press("P")
        await shows(pilot, "Pin 2 runs?", "2 marked runs are not in the list")
        await pilot.press("n")
        await lacks(pilot, "Pin 2 runs?")
        assert not the_list(pilot).pins.ids
        await pilot.press("P", "y")
        await until(pilot, lambda: the_list(pilot).pins.ids == {"hid-aaaaaa", "also-hid-bbbbbb"})

    drive(world.board(), use)


@pytest.mark.parametrize("key", ["t", "B"])
def test_a_field_for_labels_counts_the_runs_that_the_filter_hides(world: World, key: str) -> None:
    two_of_three(world)

    async def use(pilot: Pilot[None]) -> None:
        await mark(pilot, "hid-aaaaaa", "also-hid-bbbbbb")
        await find(pilot, "seen")
        await pilot.press(key)
        await shows(pilot, " of 2 runs", "2 marked runs are not in the list")

    drive(world.board(), use)


def test_a_run_in_a_folded_row_is_listed_and_an_archived_one_is_not(world: World) -> None:
    for run_id in ("one-aaaaaa", "two-bbbbbb"):
        world.run(run_id, state="succeeded")

    async def use(pilot: Pilot[None]) -> None:
        await mark(pilot, "one-aaaaaa", "two-bbbbbb")
        await pilot.press("b")
        await shows(pilot, "box  2 runs")
        await pilot.press("left")
        await shows(pilot, "▸ box", "2 marked")
        assert not the_list(pilot).unlisted
        labels.archive(world.database, "one-aaaaaa", on=True)
        await shows(pilot, "2 marked, 1 not listed")

    drive(world.board(), use)


@pytest.mark.parametrize(
    ("key", "state", "title"),
    [("x", "running", "Stop 3 runs?"), ("u", "failed", "Resume 3 runs?"), ("d", "failed", "Remove 3 runs?")],
)
def test_a_question_names_the_marked_runs_that_are_not_in_view(world: World, key: str, state: str, title: str) -> None:
    for run_id in ("also-hid-aaaaaa", "hid-bbbbbb", "seen-cccccc"):
        world.run(run_id, state=state)

    async def use(pilot: Pilot[None]) -> None:
        await mark(pilot, "also-hid-aaaaaa", "hid-bbbbbb", "seen-cccccc")
        await find(pilot, "seen")
        await pilot.press(key)
        seen = await shows(pilot, title, "2 marked runs are not in the list.", "not listed")
        lines = [line for line in seen.splitlines() if f" on box, {state}" in line]
        assert [", not listed" in line for line in lines] == [True, True, False]
        await pilot.press("n")
        await lacks(pilot, title)
        await typed(pilot, {"x": "stop", "u": "resume", "d": "rm"}[key], "enter")
        await shows(pilot, title, "2 marked runs are not in the list.")

    drive(world.board(), use)


def test_a_question_says_which_marked_runs_are_in_a_folded_row(world: World) -> None:
    for run_id in ("one-aaaaaa", "two-bbbbbb"):
        world.run(run_id)

    async def use(pilot: Pilot[None]) -> None:
        await mark(pilot, "one-aaaaaa")
        await pilot.press("x")
        seen = await shows(pilot, "Stop 1 run?")
        assert "marked run" not in seen
        await pilot.press("n", "b")
        await shows(pilot, "box  2 runs")
        await pilot.press("left")
        await shows(pilot, "▸ box")
        await pilot.press("x")
        await shows(
            pilot, "Stop 1 run?", "one-aaaaaa on box, running, in a folded row", "1 marked run is in a folded row."
        )

    drive(world.board(), use)
