"""`:stop --where` and `:rm --where` name the runs before anything is done, and do it to no other."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

import pytest
from textual.pilot import Pilot

from armada.foundation.process_identity import current
from armada.tui import acts
from armada.tui.operations import Answer
from armada.tui.screens.matching import found_ids, split_filter
from tests.tui.conftest import REAL_ASK, World, drive, nothing, said, screen, shows, until
from tests.tui.test_command_line import typed
from tests.tui.test_many_acts import asked

__all__ = ["asked"]


@pytest.fixture
def four(world: World) -> World:
    for run_id, state in (("one", "running"), ("two", "running"), ("old", "failed"), ("bad", "failed")):
        world.run(f"{run_id}-aaaaaa", state=state)
    world.losses("one-aaaaaa", [3.0, 2.5])
    world.losses("two-aaaaaa", [3.0, 0.5])
    return world


def test_stop_with_a_filter_names_the_runs_and_stops_no_other(four: World, asked: list[list[str]]) -> None:
    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "one-aaaaaa")
        await typed(pilot, "stop --where 'is:active or old'", "enter")
        await shows(pilot, "Stop 2 runs?", "one-aaaaaa on box, running", "two-aaaaaa on box, running")
        assert "old-aaaaaa on box" not in screen(pilot)
        four.run("new-aaaaaa")
        await until(pilot, lambda: "new-aaaaaa" in pilot.app.snapshot.by_id)  # type: ignore[attr-defined]  # the dashboard's
        await pilot.press("y")
        await until(pilot, lambda: "stop 2 runs" in said(pilot))

    drive(four.board(), use)
    assert sorted(asked[0]) == ["one-aaaaaa", "stop", "two-aaaaaa"]
    assert len(asked) == 1


def test_a_filter_by_metric_with_options_is_replaced_by_the_runs(four: World, asked: list[list[str]]) -> None:
    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "one-aaaaaa")
        await typed(pilot, "stop --grace 0 --where 'loss<1'", "enter")
        await shows(pilot, "Stop 1 run?", "two-aaaaaa on box, running", "armada stop --grace 0")
        assert asked == []
        await pilot.press("y")
        await until(pilot, lambda: "stop 1 run" in said(pilot))

    drive(four.board(), use)
    assert asked == [["stop", "--grace", "0", "two-aaaaaa"]]


def test_rm_with_a_filter_asks_as_its_key_does(
    four: World, asked: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(words: Sequence[str], tell: Callable[[Answer], None]) -> Callable[[], None]:
        if words[0] != "rm":
            return REAL_ASK(words, tell)
        tell(Answer(0, json.dumps({"kept_home": [], "host_error": None, "deleted_host": []}), ""))
        return nothing

    monkeypatch.setattr("armada.tui.operations.ask", answer)

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "one-aaaaaa")
        await typed(pilot, "rm --where=state:failed --yes", "enter")
        await shows(
            pilot, "Remove 2 runs?", "old-aaaaaa on box, failed", "bad-aaaaaa on box, failed", "is deleted there"
        )
        await pilot.press("y")
        await until(pilot, lambda: "remove 2 runs on box" in said(pilot))
        await typed(pilot, "rm --force --where id:old", "enter")
        await shows(pilot, "Remove 1 run?", "old-aaaaaa on box, failed", "armada rm --force")
        await pilot.press("n")

    drive(four.board(), use)
    assert [sorted(words) for words in asked] == [["bad-aaaaaa", "old-aaaaaa", "rm"]]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("stop --where id:nosuch", "stop: no active run matches id:nosuch"),
        ("stop --where state:failed", "stop: no active run matches state:failed"),
        ("rm --where id:nosuch", "remove: no run matches id:nosuch"),
        ("rm --where nokey<3", "remove: "),
        ("rm --where ' '", "remove: the filter is empty, so it would mean every run"),
        ("rm --where is:ended old-aaaaaa", "remove: give either runs or --where, not both"),
    ],
)
def test_a_filter_that_finds_nothing_or_is_none_asks_nothing_and_says_why(
    four: World, asked: list[list[str]], text: str, why: str
) -> None:
    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "one-aaaaaa")
        await typed(pilot, text, "enter")
        await until(pilot, lambda: why in said(pilot))
        assert "runs?" not in screen(pilot)
        assert "run?" not in screen(pilot)
        if "nokey" in text:
            assert "nokey" in said(pilot)

    drive(four.board(), use)
    assert asked == []


def test_an_act_with_a_filter_is_not_started_again_from_history(four: World, asked: list[list[str]]) -> None:
    log = acts.new_log(four.home, "stop")
    acts.record(log, title="stop", words=["stop", "--yes", "--where", "is:active"], process=current())
    acts.record_end(log, 0)

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "one-aaaaaa")
        await pilot.press("7")
        await shows(pilot, "armada stop --yes --where is:active", "done")
        await pilot.press("enter")
        await until(pilot, lambda: "it names no runs" in said(pilot))
        assert "Start it again?" not in screen(pilot)

    drive(four.board(), use)
    assert asked == []


@pytest.mark.parametrize(
    ("words", "left", "text"),
    [
        ("stop --where a --where=b=c --grace 0", "stop --grace 0", "b=c"),
        ("rm --where", "rm", ""),
        ("rm --where a -- --where", "rm -- --where", "a"),
    ],
)
def test_the_last_filter_counts_and_none_is_left(words: str, left: str, text: str) -> None:
    assert split_filter(tuple(words.split())) == (tuple(left.split()), text)


@pytest.mark.parametrize("out", ["", "{}", '{"error": {"message": "no"}}', "[" * 10])
def test_what_is_no_list_of_runs_is_a_refusal(out: str) -> None:
    assert found_ids(Answer(0, out, "")) is None
    assert found_ids(Answer(2, "[]", "")) is None
