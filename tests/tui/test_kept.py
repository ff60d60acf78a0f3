"""What the dashboard keeps between two pictures: it is made anew as soon as anything differs that it was made from."""

from __future__ import annotations

import time
from typing import Any

import pytest
from textual.pilot import Pilot

from armada.store import hosts, runs, telemetry
from armada.tui.host_reading import HostReader
from armada.tui.host_runs import HostRuns
from armada.tui.kept import Kept
from armada.tui.reading import RunReader
from armada.tui.screens.host_text import GpuLines
from armada.tui.screens.hosts import HostsScreen
from armada.tui.screens.run import RunScreen
from armada.tui.screens.sync import SyncScreen
from armada.tui.screens.view import View
from armada.tui.snapshot import HostView, RunRow, Snapshot
from armada.tui.symbols import UNICODE
from armada.verdicts.states import Verdict
from tests.tui.conftest import World, drive, lacks, shows, until


def gpu(index: int, *users: str, used: float = 40e9) -> dict[str, Any]:
    processes = [{"pid": 1, "run_id": user} for user in users]
    return {"index": index, "memory_total_bytes": 80e9, "memory_used_bytes": used, "processes": processes}


def snapshot(reader: RunReader, before: Snapshot | None = None) -> Snapshot:
    """What the watcher makes of the runs in the store."""
    rows = reader.read({})
    generation = before.generation + 1 if before is not None else 1
    return Snapshot(time.time(), rows, reader.by_id, reader.counts, generation, reader.changed)


def line(lines: GpuLines, host: HostView, index: dict[str, RunRow] | None = None, width: int = 16) -> str:
    parts = (*lines.together(host, width), *lines.one(host, 0, index or {}, width))
    return "".join(words for words, _ in parts)


def read(reader: HostReader, *, telemetry: bool = True) -> HostView:
    (found,) = (host for host in reader.read({}, telemetry=telemetry, history=None, now=time.time()))
    return found


def test_a_value_is_kept_until_what_it_is_made_from_differs() -> None:
    kept: Kept[list[int]] = Kept(most=2)
    first = kept.get("a", (1, "x"), list)
    assert kept.get("a", (1, "x"), list) is first
    assert kept.get("b", (1, "x"), list) is not first
    assert kept.get("a", (2, "x"), list) is not first
    assert kept.get("a", (1, "x"), list) is not first
    assert kept.get("c", 0, list) is not first  # a third key forgets the others


@pytest.mark.parametrize("change", ["memory", "load", "user", "width", "index"])
def test_a_hosts_gpu_line_changes_with_each_thing_that_it_shows(world: World, change: str) -> None:
    world.run("mine-aaaaaa")
    now = time.time()
    hosts.record_facts(world.database, "box", {"gpus": [gpu(0, "mine-aaaaaa"), gpu(1)]})
    reader, lines = HostReader(world.database, world.home), GpuLines(UNICODE)
    host = read(reader)
    known = RunReader(world.database)
    known.read({})
    before = line(lines, host, known.by_id)
    assert read(reader) is host  # nothing changed in the store
    assert line(lines, host, known.by_id) is not None
    index, width = known.by_id, 16
    if change == "memory":
        hosts.record_facts(world.database, "box", {"gpus": [gpu(0, "mine-aaaaaa", used=70e9), gpu(1)]})
    elif change == "load":
        sample = telemetry.Point(0, now, 77.0, 10**9, 250.0, 50.0)
        telemetry.record(world.database, "box", [sample])
        reader = HostReader(world.database, world.home)
    elif change == "user":
        hosts.record_facts(world.database, "box", {"gpus": [gpu(0), gpu(1, "mine-aaaaaa")]})
    elif change == "index":
        index = {}  # the run was removed: it is not ours any more
    else:
        sample = telemetry.Point(0, now, 77.0, 10**9, 250.0, 50.0)
        telemetry.record(world.database, "box", [sample])
        reader, width = HostReader(world.database, world.home), 30
        before = line(lines, read(reader), index)
    assert line(lines, read(reader), index, width) != before
    assert line(lines, read(reader), index, width) == line(GpuLines(UNICODE), read(reader), index, width)


def test_the_runs_of_hosts_follow_what_changed(world: World) -> None:
    world.run("one-aaaaaa", host="box")
    world.run("two-bbbbbb", host="box", state="succeeded")
    world.run("far-cccccc", host="far")
    reader, kept = RunReader(world.database), HostRuns()
    first = snapshot(reader)
    found = kept.read(first)
    assert [row.id for row in found["box"].active] == ["one-aaaaaa"]
    assert kept.read(Snapshot(*first)) is found
    far = found["far"]
    moment = time.time() + 60
    runs.record(world.database, "one-aaaaaa", Verdict("failed", "oom", "", 1, 2, "evidence"), ended_at=moment)
    second = snapshot(reader, first)
    assert second.changed == frozenset({"one-aaaaaa"})
    found = kept.read(second)
    assert (found["box"].active, found["box"].last_ended_at) == ((), moment)
    assert found["far"] is far  # nothing of it was sorted again
    assert found == HostRuns().read(second)
    world.run("new-dddddd", host="new")
    third = snapshot(reader, second)
    assert kept.read(third) == HostRuns().read(third)
    assert "new" in kept.read(third)


def test_a_missed_snapshot_hides_no_change(world: World) -> None:
    world.run("one-aaaaaa", host="box")
    reader, kept = RunReader(world.database), HostRuns()
    first = snapshot(reader)
    kept.read(first)
    runs.record(world.database, "one-aaaaaa", Verdict("running", attempt=1, seq=2), step=7)
    missed = snapshot(reader, first)
    world.run("two-bbbbbb", host="box")
    third = snapshot(reader, missed)
    assert kept.read(third) == HostRuns().read(third)
    runs.record(world.database, "two-bbbbbb", Verdict("running", attempt=1, seq=2), step=9)
    missed = snapshot(reader, third)
    runs.record(world.database, "one-aaaaaa", Verdict("running", attempt=1, seq=3), step=8)
    last = snapshot(reader, missed)
    assert kept.read(last) == HostRuns().read(last)


def test_hosts_shows_a_changed_record_at_once(world: World) -> None:
    world.hosts(box={"ssh": "root@192.0.2.1"})
    hosts.record_facts(world.database, "box", {"gpus": [gpu(0), gpu(1)]})

    async def use(pilot: Pilot[None]) -> None:
        await pilot.press("3")
        await shows(pilot, "box")
        await pilot.press("enter")
        await shows(pilot, "37/75 GiB")
        hosts.record_facts(world.database, "box", {"gpus": [gpu(0, used=70e9), gpu(1)]})
        await shows(pilot, "65/75 GiB")
        hosts.mark_unreachable(world.database, "box", "no route to host")
        await shows(pilot, "unreachable since")
        world.run("mine-aaaaaa", host="box")
        await shows(pilot, "1 run ")

    drive(world.board(), use)


def test_sync_lists_a_run_as_soon_as_it_has_a_checkpoint_that_is_not_home(world: World) -> None:
    world.run("done-aaaaaa", state="succeeded")
    world.last_sync("done-aaaaaa")

    async def use(pilot: Pilot[None]) -> None:
        await pilot.press("4")
        await shows(pilot, "everything is home")
        world.checkpoint("done-aaaaaa", 500, home=False)
        await shows(pilot, "1 checkpoint only there")
        await lacks(pilot, "everything is home")
        assert isinstance(pilot.app.screen, SyncScreen)
        await until(pilot, lambda: pilot.app.screen.query_one("ListTable").shows("done-aaaaaa"))  # type: ignore[attr-defined]

    drive(world.board(), use)


def test_the_facts_of_a_run_change_with_it(world: World) -> None:
    world.run("one-aaaaaa", step=1, total_steps=10)

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "one-aaaaaa")
        await pilot.press("2")
        await until(pilot, lambda: isinstance(pilot.app.screen, RunScreen))
        await shows(pilot, "10%")
        runs.record(world.database, "one-aaaaaa", Verdict("running", attempt=1, seq=2), step=7)
        await shows(pilot, "70%")
        world.database.connection.execute("UPDATE runs SET note = ? WHERE run_id = ?", ("word " * 60, "one-aaaaaa"))
        await shows(pilot, "word word word")

    drive(world.board(), use)


@pytest.mark.parametrize(("key", "made"), [("3", HostsScreen), ("4", SyncScreen), ("2", RunScreen)])
def test_a_new_screen_is_drawn_once_before_it_is_painted(
    world: World, monkeypatch: pytest.MonkeyPatch, key: str, made: type[View]
) -> None:
    world.run("one-aaaaaa")
    drawn: list[Snapshot] = []
    draw = made.draw

    def count(self: View, updates: Any = ()) -> None:
        if not self.size.width or not self.children[0].size.width:
            drawn.append(self.snapshot)
        draw(self, updates)

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "one")
        monkeypatch.setattr(made, "draw", count)
        await pilot.press(key)
        await until(pilot, lambda: isinstance(pilot.app.screen, made) and pilot.app.screen.children[0].size.width)
        assert len(drawn) == len({id(each) for each in drawn}) == 1

    drive(world.board(), use)
