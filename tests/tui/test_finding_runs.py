"""Filters, labels and columns of the Runs screen."""

from __future__ import annotations

import time

import pytest
from textual.pilot import Pilot
from textual.widgets import Input

from armada.store import run_sync, runs
from armada.tui import remembered
from armada.tui.app import Dashboard
from armada.tui.screens.columns import ColumnsWindow
from armada.tui.screens.runs import RunsScreen
from armada.tui.widgets.run_table import RunTable
from tests.tui.conftest import World, drive, lacks, said, shows, until


def rows(pilot: Pilot[None]) -> list[str]:
    """Ids in the order of the table."""
    first = pilot.app.screen_stack[0]
    assert isinstance(first, RunsScreen)
    return [entry.key for entry in first.query_one(RunTable).entries if entry.kind == "row"]


def label(world: World, run_id: str, **columns: object) -> None:
    for name, value in columns.items():
        world.database.connection.execute(f'UPDATE runs SET "{name}" = ? WHERE run_id = ?', (value, run_id))  # ours


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("tag:arc", {"a-aaaaaa", "b-bbbbbb"}),
        ("-tag:arc", {"c-cccccc"}),
        ("#nothing or starred", {"a-aaaaaa"}),
        ("arc", {"a-aaaaaa", "b-bbbbbb"}),
        ("(tag:arc state:failed) or loss<0.2", {"b-bbbbbb", "c-cccccc"}),
        ("lr>1e-4", {"b-bbbbbb"}),
        ("seed=7", {"a-aaaaaa"}),
        ("model:qwen", {"a-aaaaaa"}),
        ("eval_loss<0.5", {"c-cccccc"}),
        ("best<0.5", {"b-bbbbbb", "c-cccccc"}),
        ("group:sw*", {"c-cccccc"}),
        ("archived", {"gone-dddddd"}),
        ("archived or starred", {"gone-dddddd", "a-aaaaaa"}),
        ("note:because", {"a-aaaaaa"}),
        ("state:running loss<", {"a-aaaaaa", "c-cccccc"}),
        ("tag:", {"a-aaaaaa", "b-bbbbbb", "c-cccccc"}),
    ],
)
def test_the_filter_takes_expressions_over_settings_metrics_and_labels(
    world: World, typed: str, found: set[str]
) -> None:
    world.run("a-aaaaaa", spec={"experiment": {"model": "Qwen/Qwen3", "train": {"learning_rate": 1e-5, "seed": 7}}})
    world.run("b-bbbbbb", state="failed", spec={"experiment": {"train": {"learning_rate": 1e-3}}})
    world.run("c-cccccc", loss=0.1)
    world.run("gone-dddddd", state="succeeded")
    world.losses("b-bbbbbb", [0.4, 0.9], name="eval_loss")
    world.losses("c-cccccc", [0.9, 0.45], name="eval_loss")
    label(world, "a-aaaaaa", tags='["arc", "base"]', starred_at=1.0, note="because of it")
    label(world, "b-bbbbbb", tags='["arc"]')
    label(world, "c-cccccc", group="sweep", loss=0.1)
    label(world, "gone-dddddd", archived_at=1.0)

    async def use(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: len(rows(pilot)) == 3)  # the archived one is hidden
        await pilot.press("slash")
        pilot.app.screen.query_one("#filter", Input).value = typed
        await until(pilot, lambda: set(rows(pilot)) == found)

    drive(world.board(), use)


def test_a_wrong_filter_says_why_and_a_new_metric_is_seen(world: World) -> None:
    world.run("a-aaaaaa")
    world.run("b-bbbbbb")
    world.losses("a-aaaaaa", [0.4], name="eval_loss")

    async def use(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: len(rows(pilot)) == 2)
        await pilot.press("slash")
        field = pilot.app.screen.query_one("#filter", Input)
        field.value = "eval_los<1"
        await shows(pilot, "no run has a key called `eval_los`", "did you mean eval_loss?", "0 of 2 runs")
        field.value = "eval_loss<abc"
        await shows(pilot, "'abc' is not a number for `eval_loss`", "2 of 2 runs")
        field.value = "eval_loss<0.5"
        await until(pilot, lambda: rows(pilot) == ["a-aaaaaa"])
        world.losses("b-bbbbbb", [0.3], name="eval_loss")
        await until(pilot, lambda: set(rows(pilot)) == {"a-aaaaaa", "b-bbbbbb"})
        await lacks(pilot, "no run has a key")

    drive(world.board(), use)


def test_columns_are_chosen_shown_and_remembered(world: World) -> None:
    world.run("a-aaaaaa", name="ant", spec={"experiment": {"train": {"learning_rate": 1e-5, "seed": 7}}})
    world.losses("a-aaaaaa", [0.4, 0.25], name="eval_loss")
    label(world, "a-aaaaaa", tags='["arc"]')

    async def choose(pilot: Pilot[None], text: str) -> None:
        await pilot.press("C")
        await shows(pilot, "Columns")
        pilot.app.screen.query_one(Input).value = text
        await pilot.press("enter")

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "PROGRESS")
        await choose(pilot, "name,lr,eval_loss,nonsense")
        await shows(pilot, "no run has a key called `nonsense`", "name,lr,eval_loss,nonsense")
        pilot.app.screen.query_one(Input).value = "name,lr,eval_loss,min(eval_loss),tag,[b]x"
        await pilot.press("enter")
        await shows(pilot, "no run has a key called `[b]x`")
        await pilot.press("end", *["backspace"] * 5, "enter")  # what was typed is still there
        await shows(pilot, "LEARNING_RATE", "1e-05", "0.25", "MIN(EVAL_LOSS)", "arc")
        await lacks(pilot, "PROGRESS")

    async def use_again(pilot: Pilot[None]) -> None:
        await shows(pilot, "LEARNING_RATE", "1e-05")
        await choose(pilot, "default")
        await shows(pilot, "PROGRESS")

    drive(world.board(), use)
    drive(world.board(), use_again)
    assert remembered.columns(world.home) == []


def test_what_is_wrong_with_columns_stays_when_the_names_of_metrics_are_read_after_it(world: World) -> None:
    world.run("a-aaaaaa", name="ant")

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "PROGRESS")
        await pilot.press("C")
        await shows(pilot, "the usual columns")
        window, board = pilot.app.screen, pilot.app
        assert isinstance(window, ColumnsWindow)
        assert isinstance(board, Dashboard)
        await pilot.press(*"name,nonsense", "enter")
        await shows(pilot, "no run has a key called `nonsense`")
        window.choice.learn(window.choice.words._replace(metrics=frozenset({"other"})))  # as before others were read
        await until(pilot, lambda: window.choice.words == board.snapshot.words)
        await shows(pilot, "no run has a key called `nonsense`")
        await pilot.press("backspace")
        await lacks(pilot, "no run has a key called")

    drive(world.board(), use)


def test_labels_are_given_by_keys_and_shown(world: World) -> None:
    world.run("done-aaaaaa", state="succeeded")
    world.run("busy-bbbbbb")

    def has(run_id: str, **wanted: object) -> bool:
        run = runs.find(world.database, run_id)
        return all(getattr(run, name) == value for name, value in wanted.items())

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "done-aaaaaa", "busy-bbbbbb")
        await pilot.press("a", "asterisk")
        await until(pilot, lambda: all(runs.find(world.database, each).starred_at for each in ("done", "busy")))
        await shows(pilot, "★")
        await pilot.press("t")
        await shows(pilot, "Tags of 2 runs")
        await pilot.press(*"arc [b]", "enter")
        await until(pilot, lambda: "cannot be a tag" in said(pilot))
        await pilot.press("t", *"arc base", "enter")
        await until(pilot, lambda: has("done", tags=("arc", "base")) and has("busy", tags=("arc", "base")))
        await shows(pilot, "#arc #base")
        await pilot.press("i")
        await until(pilot, lambda: "a note is for one run" in said(pilot))
        await pilot.press("B", *"sweep 1", "enter")
        await until(pilot, lambda: has("done", group="sweep 1") and has("busy", group="sweep 1"))
        await pilot.press("z")
        await until(pilot, lambda: runs.find(world.database, "done").is_archived)
        await lacks(pilot, "done-aaaaaa")
        await pilot.press("enter")
        await shows(pilot, "labels", "★ sweep 1 #arc #base")
        await pilot.press("t")
        await shows(pilot, "Now: arc base")
        await pilot.press(*"-base", "enter", "i")
        await shows(pilot, "Note about busy-bbbbbb")
        await pilot.press(*"-x [b]why", "enter")
        await until(pilot, lambda: has("busy", tags=("arc",), note="-x [b]why"))
        await shows(pilot, "-x [b]why")
        await pilot.press("z")
        await until(pilot, lambda: "only ended runs can be archived" in said(pilot))
        await pilot.press("B")
        await shows(pilot, "Group of busy-bbbbbb", "sweep 1")
        pilot.app.screen.query_one(Input).value = "-"
        await pilot.press("enter", "asterisk")
        await until(pilot, lambda: has("busy", group=None, starred_at=None))

    drive(world.board(), use, (200, 40))


def test_read_only_gives_no_labels(world: World) -> None:
    world.run("done-aaaaaa", state="succeeded")

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "done-aaaaaa")
        for key in ("asterisk", "t", "i", "B", "z"):
            await pilot.press(key)
        await until(pilot, lambda: "archive: disabled" in said(pilot))
        assert runs.find(world.database, "done").starred_at is None

    drive(world.board(read_only=True), use)


def test_runs_are_grouped_by_their_group(world: World) -> None:
    world.run("a-aaaaaa")
    world.run("b-bbbbbb")
    label(world, "a-aaaaaa", group="sweep [b]")

    async def use(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: len(rows(pilot)) == 2)
        await pilot.press("b", "b", "b")
        await shows(pilot, "grouped by group", "sweep [b]", "no group")

    drive(world.board(), use)


def test_runs_are_not_grouped_by_what_none_of_them_has(world: World) -> None:
    world.run("a-aaaaaa")
    world.run("b-bbbbbb", host="other")

    async def use(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: len(rows(pilot)) == 2)
        await pilot.press("b")
        await shows(pilot, "grouped by host")
        await pilot.press("b")
        await shows(pilot, "grouped by state")
        await pilot.press("b")
        await lacks(pilot, "grouped by")
        label(world, "a-aaaaaa", group="new")
        board = pilot.app
        assert isinstance(board, Dashboard)
        await until(pilot, lambda: board.snapshot.by_id["a-aaaaaa"].run.group == "new")
        await pilot.press("b", "b", "b")
        await shows(pilot, "grouped by group", "no group")

    drive(world.board(), use)


def test_an_archived_failure_needs_nobody_but_a_failing_sync_of_it_is_shown(world: World) -> None:
    world.run("seen-aaaaaa", state="failed", reason="oom")
    world.run("stuck-bbbbbb", state="failed", reason="oom")
    for run_id in ("seen-aaaaaa", "stuck-bbbbbb"):
        label(world, run_id, archived_at=1.0)
    now = time.time()
    run_sync.failed(world.database, "stuck-bbbbbb", now=now, reason="home's disk is full", next_due_at=now + 600)

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "sync fails: home's disk is full   y sync now  l log", "1 of 2 runs")
        assert rows(pilot) == ["stuck-bbbbbb"]

    drive(world.board(), use)
