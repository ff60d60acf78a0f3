"""What one screen says of a run or a host, the others say too: signs, counts, names, and what nobody will do."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import cast

import pytest
from textual.pilot import Pilot

from armada.filters.keys import RUN_KEYS
from armada.store import run_sync, runs
from armada.store.database import Database
from armada.tui import lookout, operations
from armada.tui.app import Dashboard
from armada.tui.filtering import NO_FACTS, subject_of
from armada.tui.reading import RunReader
from armada.tui.screens.compare_text import state_of
from armada.tui.screens.help import what_is_here
from armada.tui.screens.run_acts import SILENT
from armada.tui.screens.view import View
from armada.tui.snapshot import DaemonView, RunRow
from armada.tui.symbols import UNICODE
from armada.tui.watcher import Watcher
from armada.tui.widgets.answers import of_hosts
from tests.tui.conftest import World, drive, screen, shows


def rows_of(database: Database) -> dict[str, RunRow]:
    return {row.id: row for row in RunReader(database).read({})}


def silent(world: World, *run_ids: str) -> None:
    runs.mark_unreachable(world.database, list(run_ids), "no route to host")


def test_a_column_counts_the_checkpoints_at_home_as_armada_ps_does(world: World) -> None:
    world.run("demo-aaaaaa")
    for step, home in ((1, True), (2, True), (3, False)):
        world.checkpoint("demo-aaaaaa", step, home=home)
    row = rows_of(world.database)["demo-aaaaaa"]
    stored = runs.find(world.database, "demo-aaaaaa")
    assert RUN_KEYS["checkpoints"].read(subject_of(row, NO_FACTS, 0.0)) == stored.checkpoints_home == 2


def test_compare_and_help_do_not_call_a_run_well_whose_host_is_silent(world: World) -> None:
    for run_id in ("one-aaaaaa", "two-bbbbbb"):
        world.run(run_id, host="far")
        world.losses(run_id, [1.0, 0.5])
    silent(world, "one-aaaaaa")
    row = rows_of(world.database)["one-aaaaaa"]
    assert state_of(row, UNICODE) == (f"{UNICODE.unreachable} running", "warn")

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "one-aaaaaa", "two-bbbbbb")
        named = what_is_here(cast("View", pilot.app.screen)).name
        assert named in {"one-aaaaaa, running, unreachable", "two-bbbbbb, running, unreachable"}
        await pilot.press("a", "c")
        await shows(pilot, f"{UNICODE.unreachable} running")

    drive(world.board(), use)


def test_a_run_of_which_nothing_is_known_does_not_wait(world: World) -> None:
    world.run("waits-aaaaaa", state="submitted")
    world.run("lost-bbbbbb", state="unknown", reason="not_on_host")
    reader = RunReader(world.database)
    reader.read({})
    assert reader.counts.waiting == 1


def test_the_question_of_a_stop_says_that_the_host_is_silent_and_what_a_sweep_calls_the_run(world: World) -> None:
    world.run("demo-aaaaaa", host="far", name="demo lr=0.1", step=7)
    silent(world, "demo-aaaaaa")

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo lr=0.1")
        await pilot.press("x")
        seen = " ".join((await shows(pilot, "Stop 1 run?")).replace("│", " ").split())
        assert "demo-aaaaaa (demo lr=0.1) on far, running, step 7 when seen last; unreachable since" in seen
        assert SILENT.split(":")[0] in seen

    drive(world.board(), use)


def test_news_of_a_silent_host_is_one_line(world: World) -> None:
    for run_id, host in (("one-aaaaaa", "far"), ("two-bbbbbb", "far"), ("six-cccccc", "near")):
        world.run(run_id, host=host)
    silent(world, "one-aaaaaa", "two-bbbbbb", "six-cccccc")
    rows = rows_of(world.database)
    news = [(9.0, "unreachable", rows[run_id]) for run_id in rows] + [(8.0, "started", rows["one-aaaaaa"])]
    found = {(what, row.host, count) for _, what, row, count in of_hosts(news)}
    assert found == {("unreachable", "far", 2), ("unreachable", "near", 1), ("started", "far", 1)}

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "What happened", "far unreachable (2 runs): no route to host", "six-cccccc unreachable: no")

    drive(world.board(), use, (160, 48))


@pytest.mark.parametrize(("condition", "words"), [("fresh", "in 2 d"), ("ended", "no daemon"), ("never", "no daemon")])
def test_nothing_is_planned_where_no_daemon_does_it(
    world: World, monkeypatch: pytest.MonkeyPatch, condition: str, words: str
) -> None:
    now = time.time()
    monkeypatch.setattr(
        Watcher, "_daemon", lambda watcher: DaemonView(condition, None if condition == "never" else now)
    )
    world.run("demo-aaaaaa")
    world.checkpoint("demo-aaaaaa", 7, home=True)
    run_sync.succeeded(world.database, "demo-aaaaaa", began=now, next_due_at=now + 2.5 * 86_400)

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        await pilot.press("4")
        await shows(pilot, "demo-aaaaaa", words)

    drive(world.board(), use)


def test_launch_keeps_no_plan_of_another_host(world: World) -> None:
    world.hosts(far={"ssh": "root@127.0.0.1:1"})

    async def use(pilot: Pilot[None]) -> None:
        await pilot.press("5")
        await pilot.press(*"quickstart", "tab", *"far")
        await shows(pilot, "Checks on far", "127.0.0.1")
        await pilot.press("ctrl+u")
        await shows(pilot, "Type an experiment and a host")
        assert "Checks on" not in screen(pilot)

    drive(world.board(), use)


def test_hosts_that_are_not_checked_are_said_once_for_each_reason(world: World) -> None:
    said: list[str] = []
    board = SimpleNamespace(symbols=UNICODE, notify=lambda words, **_: said.append(words), set_timer=lambda *_: None)
    looks = lookout.Lookout(cast("Dashboard", board))

    def end(code: int, last: str, title: str = lookout.TITLE) -> bool:
        return looks.take(operations.Ended(title, code, last, world.home.state))

    assert not end(1, "another command", "stop demo")
    assert end(0, "")
    assert end(4, "far does not answer")
    assert said == []
    assert end(1, "this is a bug in armada")
    assert end(1, "this is a bug in armada")
    assert said == ["the hosts are not being checked: this is a bug in armada"]
    assert end(0, "")
    assert end(1, "")
    assert said[1:] == ["the hosts are not being checked: exit code 1"]
