"""Groups of runs: each heading says how many, in which states, and the best; a run stands under each of its tags."""

from __future__ import annotations

import pytest
from textual.pilot import Pilot

from armada.store import labels
from armada.tui.arrangement import GROUPS, Arrangement, Heading
from armada.tui.reading import RunReader
from armada.tui.screens.runs import RunsScreen
from tests.tui.conftest import World, drive, lacks, screen, shows, until


@pytest.fixture
def tagged(world: World) -> World:
    for run_id, losses, tags in (
        ("one-aaaaaa", [3.0, 0.5], ["arc", "base"]),
        ("two-bbbbbb", [2.0, 0.75], ["arc"]),
        ("three-cccccc", [float("nan")], ["base"]),
        ("four-dddddd", [], []),
    ):
        world.run(run_id, state="running" if tags else "succeeded")
        if losses:
            world.losses(run_id, losses)
        labels.change_tags(world.database, run_id, add=tags)
    return world


def by_tag(pilot: Pilot[None]) -> RunsScreen:
    found = pilot.app.screen_stack[0]
    assert isinstance(found, RunsScreen)
    return found


def test_a_run_stands_under_each_of_its_tags_and_is_counted_once(tagged: World) -> None:
    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "4 of 4 runs")
        await pilot.press(*"b" * GROUPS.index("tag"))
        seen = await shows(pilot, "arc  2 runs: 2 running  best 0.5", "base  2 runs: 2 running  best 0.5")
        assert "no tag  1 run: 1 succeeded" in seen
        assert "4 of 4 runs" in seen
        assert seen.count("one-aaaaaa") == 3  # and in the preview
        table = by_tag(pilot).table
        twice = [line for line in table.entries if table.mark_of(line.key) == "one-aaaaaa"]
        assert len(twice) == 2
        table.place(twice[1].key)
        assert by_tag(pilot).cursor_run == "one-aaaaaa"
        await pilot.press("space")
        await shows(pilot, "1 marked")
        assert [row.id for row in by_tag(pilot).concerned()] == ["one-aaaaaa"]
        sign = table.symbols.marked
        assert sum("one-aaaaaa" in line and sign in line for line in screen(pilot).splitlines()) == 2
        await pilot.press("escape")
        await lacks(pilot, "1 marked")
        await pilot.press("home")
        for _ in range(4):
            await pilot.press("j")
        assert by_tag(pilot).cursor_run == "four-dddddd"  # five rows, each a stop
        table.place(twice[1].key)
        await pilot.press("enter")
        await until(pilot, lambda: getattr(pilot.app.screen, "run_id", None) == "one-aaaaaa")

    drive(tagged.board(), use, (150, 40))


def test_headings_follow_when_a_loss_or_a_tag_changes(tagged: World) -> None:
    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "4 of 4 runs")
        await pilot.press(*"b" * GROUPS.index("tag"))
        await shows(pilot, "arc  2 runs: 2 running  best 0.5")
        tagged.losses("two-bbbbbb", [0.25])
        await shows(pilot, "arc  2 runs: 2 running  best 0.25", "base  2 runs: 2 running  best 0.5")
        tagged.losses("one-aaaaaa", [0.9])
        await shows(pilot, "base  2 runs: 2 running  best 0.9")
        labels.change_tags(tagged.database, "four-dddddd", add=["base"])
        await shows(pilot, "base  3 runs: 2 running · 1 succeeded")
        await lacks(pilot, "no tag")

    drive(tagged.board(), use, (150, 40))


def test_a_change_that_moves_no_heading_leaves_the_lines_in_place(tagged: World) -> None:
    reader, arrangement = RunReader(tagged.database), Arrangement(group="tag", sort="name")
    arrangement.arrange(reader.read({}))
    tagged.losses("two-bbbbbb", [0.7])
    reader.read({})
    assert arrangement.stays([reader.index["two-bbbbbb"]])
    tagged.losses("one-aaaaaa", [0.7])
    reader.read({})
    assert not arrangement.stays([reader.index["one-aaaaaa"]])
    headings = [line for line in arrangement.arrange(reader.rows) if isinstance(line, Heading)]
    assert [(each.title, each.count, each.best) for each in headings] == [
        ("no tag", 1, None),
        ("arc", 2, 0.7),
        ("base", 2, 0.7),
    ]
