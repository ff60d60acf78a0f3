"""While a filter is typed: what may follow stands under it, Tab takes it, and an error says its column."""

from __future__ import annotations

import pytest
from textual.pilot import Pilot

from armada.filters.keys import Vocabulary
from armada.store import labels
from armada.tui.commands.completion import MOST
from armada.tui.filter_completion import Completion, Values, complete
from armada.tui.reading import RunReader
from armada.tui.screens.runs import RunsScreen
from tests.tui.conftest import World, drive, lacks, screen, shows, until

WORDS = Vocabulary(
    frozenset({"train.learning_rate", "model", "data.train.path", "data.eval.path", "run.name"}),
    frozenset({"eval_loss", "val/acc", "not a key", "m" * 300, "bell\a"}),
)


@pytest.fixture
def known(world: World) -> World:
    world.run("one-aaaaaa", host="a100-1", state="failed", reason="oom")
    world.run("two-bbbbbb", host="b200")
    world.run("bad-cccccc", host="c\x1b[31mred", name="[bold]x[/]")
    labels.change_tags(world.database, "one-aaaaaa", add=["arc", "two words", 'a"b'])
    labels.set_group(world.database, "two-bbbbbb", "lr sweep 3")
    return world


def completed(world: World, text: str) -> Completion:
    return complete(text, WORDS, Values(RunReader(world.database).read({})))


@pytest.mark.parametrize(
    ("text", "start", "offered"),
    [
        ("", 0, ["state:", "host:", "tag:", "group:", "loss<", "lr<"]),
        ("sta", 0, ["state:", "starred", "started>"]),
        ("loss", 0, ["loss<", "loss>", "loss="]),
        ("tag:arc -lo", 9, ["loss<", "log<"]),
        ("(eval", 1, ["eval_loss<", "data.eval.path="]),
        ("min(eval_loss)", 0, ["min(eval_loss)<"]),
        ("learn", 0, ["learning_rate="]),
        ("path", 0, ["data.eval.path=", "data.train.path="]),
        ("state:run", 6, ["running"]),
        ("!host:", 6, ["b200", "a100-1"]),
        ("tag:", 4, ["arc", "two words", 'a"b']),
        ('group:"lr s', 6, ["lr sweep 3"]),
        ("reason=o", 7, ["oom"]),
        ("starred:", 8, ["yes", "no"]),
        ("is:unr", 3, ["unreachable"]),
    ],
)
def test_what_may_follow_is_offered(known: World, text: str, start: int, offered: list[str]) -> None:
    found = completed(known, text)
    assert found.start == start
    assert [each.word for each in found.candidates][: len(offered)] == offered


@pytest.mark.parametrize(
    "text", ["nothing_like_it:", 'x "quo ted', "state:running", "host:c", "m" * 20, "bell", "a" * 5000]
)
def test_nothing_is_offered_where_nothing_can_follow(known: World, text: str) -> None:
    assert [*completed(known, text).candidates] == []


def test_numbers_and_times_get_an_example(known: World) -> None:
    assert "20k" in completed(known, "loss<").hint
    assert "2026-11-23" in completed(known, "created>").hint


def test_many_metrics_are_offered_up_to_a_limit() -> None:
    many = Vocabulary(metrics=frozenset(f"acc_{number}" for number in range(5000)))
    assert len(complete("acc", many, Values()).candidates) == MOST


def first(pilot: Pilot[None]) -> RunsScreen:
    found = pilot.app.screen_stack[0]
    assert isinstance(found, RunsScreen)
    return found


def test_tab_takes_what_is_offered(known: World) -> None:
    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "3 of 3 runs")
        await pilot.press("slash")
        seen = await shows(pilot, "state:", "host:", "tag:")
        assert "[bold]x[/]" in seen
        await pilot.press(*"sta", "tab")
        field = first(pilot).field
        assert field.value == "state:"
        await until(pilot, lambda: "started>" in screen(pilot))  # the others stay, for the next Tab
        await pilot.press("tab")
        assert field.value == "starred "
        await pilot.press("shift+tab")
        assert field.value == "state:"
        await pilot.press(*"fai")
        await pilot.press("tab")
        assert field.value == "state:failed "
        await shows(pilot, "1 of 3 runs", "host:")
        await pilot.press(*"tag:tw", "tab")
        assert field.value == 'state:failed tag:"two words" '
        await shows(pilot, "1 of 3 runs")
        await pilot.press("enter")
        await lacks(pilot, "group:")
        assert first(pilot).focused is first(pilot).table

    drive(known.board(), use, (150, 40))


def test_an_error_says_its_column_under_the_field(known: World) -> None:
    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "3 of 3 runs")
        await pilot.press("slash", *"  tag:arc  losss<0.4 x")
        seen = await shows(pilot, "column 12: no run has a key called `losss` → did you mean loss?")
        lines = seen.splitlines()
        place = next(number for number, line in enumerate(lines) if "^ column 12" in line)
        assert lines[place].index("^") == lines[place - 1].index("losss")
        await pilot.press("escape", "escape")
        await lacks(pilot, "column 12")
        await pilot.press("slash", *"state:nosuch")
        await shows(pilot, "column 7: `state` is never 'nosuch'")

    drive(known.board(), use, (150, 40))


def test_a_small_terminal_keeps_its_table(known: World) -> None:
    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "3 of 3 runs")
        await pilot.press("slash")
        assert "one-aaaaaa" in await shows(pilot, "state:")

    drive(known.board(), use, (50, 10))


def test_what_a_candidate_is_is_cut_anew_when_the_terminal_is_resized(known: World) -> None:
    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "3 of 3 runs")
        await pilot.press("slash")
        await shows(pilot, "setting train.learning_rate")
        await pilot.resize_terminal(50, 40)
        await shows(pilot, "setting trai… ")
        await pilot.resize_terminal(150, 40)
        await shows(pilot, "setting train.learning_rate")

    drive(known.board(), use, (150, 40))


def test_the_mark_below_an_error_stands_there_when_the_field_opens_again(known: World) -> None:
    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "3 of 3 runs")
        await pilot.press("slash", *"losss<0.4 x", "enter")
        await lacks(pilot, "^ column")
        await pilot.press("slash")
        await shows(pilot, "^ column 1: no run has a key called `losss`")

    drive(known.board(), use, (150, 40))
