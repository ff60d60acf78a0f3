"""Whether a host answers: all screens say the same, by the newest word of its own record and of its runs."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import pytest
from textual.pilot import Pilot

from armada.store import hosts, runs, telemetry
from armada.store.telemetry import Point
from armada.tui.reachability import TRUSTED_S, Silence
from armada.tui.reading import RunReader, read_first
from armada.tui.snapshot import STALE_S
from armada.verdicts.states import Verdict
from tests.tui.conftest import World, drive, screen, shows, styles, until

NOW = 1_800_000_000.0


@dataclass
class Clock:
    now: float = NOW

    def time(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(time, "time", found.time)
    return found


def gpus(count: int = 2) -> dict[str, object]:
    total = 80 << 30
    facts = {"name": "NVIDIA A100-SXM4-80GB", "memory_total_bytes": total, "memory_used_bytes": total // 2}
    return {"gpus": [{"index": index, "utilization": 98, "processes": [], **facts} for index in range(count)]}


def observed(world: World, run_id: str, at: float, *, state: str = "running") -> None:
    runs.record(
        world.database,
        run_id,
        Verdict(state, None, None, 1, 1, "evidence"),
        observed_at=at,
        unreachable_since=None,
        unreachable_why=None,
    )


def test_a_check_of_the_host_and_a_look_at_a_run_are_one_word(world: World, clock: Clock) -> None:
    world.run("one-aaaaaa")
    world.run("two-bbbbbb")
    world.run("done-cccccc", state="succeeded")
    reader = RunReader(world.database)

    def since() -> set[tuple[float | None, str | None]]:
        rows = [row.run for row in reader.read({}) if not row.run.ended]
        found = {(run.unreachable_since, run.unreachable_why) for run in rows}
        assert found == {reader.silent.get("box", (None, None))}
        first = read_first(world.database, last=5)
        assert first is not None
        assert {
            (row.run.unreachable_since, row.run.unreachable_why) for row in first.runs if not row.run.ended
        } == found
        return found

    assert since() == {(None, None)}
    clock.now += 10
    hosts.mark_unreachable(world.database, "box", "timed out")
    assert since() == {(clock.now, "timed out")}
    assert reader.by_id["done-cccccc"].run.unreachable_since is None
    clock.now += 10
    observed(world, "one-aaaaaa", clock.now)
    assert since() == {(None, None)}, "a look at a run is newer than the check"
    clock.now += 10
    runs.mark_unreachable(world.database, ["two-bbbbbb"], "no route to host")
    assert since() == {(clock.now, "no route to host")}
    clock.now += 10
    hosts.record_facts(world.database, "box", gpus())
    assert since() == {(None, None)}, "the check is newer than the look at the other run"
    assert reader.due is False
    clock.now += TRUSTED_S
    assert reader.due is True
    assert since() == {(clock.now - TRUSTED_S - 10, "no route to host")}, "nobody has seen that run since"
    observed(world, "two-bbbbbb", clock.now)
    assert since() == {(None, None)}
    assert reader.due is False


def test_of_two_failures_the_first_time_and_the_newest_reason_hold(world: World, clock: Clock) -> None:
    world.run("one-aaaaaa")
    reader = RunReader(world.database)
    for why in ("no route to host", "timed out"):
        clock.now += 10
        if why == "timed out":
            hosts.mark_unreachable(world.database, "box", why)
        else:
            runs.mark_unreachable(world.database, ["one-aaaaaa"], why)
    reader.read({})
    assert reader.silent == {"box": Silence(NOW + 10, "timed out")}
    runs.delete(world.database, "one-aaaaaa")
    reader.read({})
    assert reader.silent == {"box": Silence(NOW + 20, "timed out")}


@pytest.mark.parametrize("by", ["run", "host"])
def test_all_screens_say_that_a_host_does_not_answer_whoever_found_it(world: World, by: str) -> None:
    world.hosts(box={"ssh": "root@192.0.2.1"})
    hosts.record_facts(world.database, "box", gpus())
    telemetry.record(world.database, "box", [Point(0, time.time(), 98.0, 70 << 30, 400.0, 60.0)])
    world.run("demo-aaaaaa", gpus="[0, 1]")
    world.run("past-bbbbbb", state="failed")
    world.checkpoint("past-bbbbbb", 1, home=False)

    async def use(pilot: Pilot[None]) -> None:
        await pilot.press("3")
        await shows(pilot, "98%", "▲ not safe")
        bright = styles(pilot, "98%")["▆▆"].color
        if by == "run":
            runs.mark_unreachable(world.database, ["demo-aaaaaa"], "no route to host")
        else:
            hosts.mark_unreachable(world.database, "box", "no route to host")
        seen = await shows(pilot, "◌ box", "◌ not safe", "unreachable since")
        assert "no route to host" in seen
        assert styles(pilot, "98%")["▆▆"].color != bright, "nobody knows what the GPUs do now"
        await pilot.press("home", "enter")
        await shows(pilot, "safe?        ◌ unreachable", "health       ▲ unreachable since")
        await pilot.press("4")
        seen = await shows(pilot, "◌ box  ", ", 1 checkpoint only there", "waits: box has been unreachable for")
        assert seen.count("waits: box has been unreachable for") == 2, "of what ended, a checkpoint is still there"
        await pilot.press("1")
        await shows(pilot, "◌ demo", "unreachable since", "◌ box  unreachable", "lost")

    drive(world.board(), use, (160, 44))


def test_load_that_is_old_is_faint_though_nobody_noticed_that_the_host_is_away(world: World) -> None:
    world.hosts(box={"ssh": "root@192.0.2.1"}, late={"ssh": "root@192.0.2.2"})
    for name in ("box", "late"):
        hosts.record_facts(world.database, name, gpus())
        telemetry.record(world.database, name, [Point(0, time.time(), 98.0, 70 << 30, 400.0, 60.0)])
    old = time.time() - STALE_S - 1
    world.database.connection.execute("UPDATE hosts SET observed_at = ? WHERE name = 'late'", (old,))
    world.database.connection.execute("UPDATE telemetry SET time = ? WHERE host = 'late'", (old,))

    async def use(pilot: Pilot[None]) -> None:
        await pilot.press("3")
        await shows(pilot, " box ", " late ", "98%")
        assert styles(pilot, " box ")["▆▆"].color != styles(pilot, " late ")["▆▆"].color

    drive(world.board(), use)


HUNG = "no step for 7 m: ranks 3 5 wait in all_reduce"


@pytest.mark.parametrize("kind", ["stalled", "no number"])
def test_what_was_wrong_before_a_host_went_silent_is_still_said(world: World, kind: str) -> None:
    hung: dict[str, Any] = {"reason": "stalled", "message": HUNG} if kind == "stalled" else {}
    world.run("demo-aaaaaa", **hung)
    if not hung:
        world.losses("demo-aaaaaa", [float("nan")])
    before = f"stalled: {HUNG}" if hung else "its loss is NaN"
    runs.mark_unreachable(world.database, ["demo-aaaaaa"], f"no route to host {'x' * 200}")

    async def use(pilot: Pilot[None]) -> None:
        seen = await shows(pilot, "◌ demo", f"; before that, {before}")
        assert seen.index("unreachable since") < seen.index("before that")
        await pilot.press("enter")
        await shows(pilot, "needs you", "unreachable since", "before that")
        await until(pilot, lambda: before in " ".join(screen(pilot).replace("│", " ").split()))

    drive(world.board(), use, (200, 44))


def test_a_host_on_which_a_run_hangs_has_its_sign_and_says_which_and_why(world: World) -> None:
    world.hosts(box={"ssh": "root@192.0.2.1"}, calm={"ssh": "root@192.0.2.2"})
    for name in ("box", "calm"):
        hosts.record_facts(world.database, name, gpus())
        world.run(f"good-{name}aa", host=name)
    world.run("demo-aaaaaa", name="arc-7b", reason="stalled", message=HUNG)

    async def use(pilot: Pilot[None]) -> None:
        await pilot.press("3")
        seen = await shows(pilot, "▲ box", "● calm", "1 run needs you: arc-7b, stalled")
        assert seen.count("needs you:") == 1
        await pilot.press("home", "enter")
        seen = await shows(pilot, "health       ▲ 1 run needs you: arc-7b, stalled")
        assert seen.count("needs you:") == 1
        assert "nothing wrong" not in seen
        for name in ("arc-1b", "arc-3b"):
            world.run(f"{name}-bbbbbb", name=name, state="unknown")
        await shows(pilot, "3 runs need you: arc-", "its state is unknown", "and 1 more")
        await pilot.press("1")
        await pilot.resize_terminal(230, 50)
        await shows(pilot, "▲ box ", "● calm ", "What do the GPUs do?")

    drive(world.board(), use, (160, 44))


def test_a_clock_that_was_set_back_hides_no_silence(world: World, clock: Clock) -> None:
    world.run("one-aaaaaa", host="box")
    hosts.record_facts(world.database, "box", {})
    clock.now = NOW - 3600
    hosts.mark_unreachable(world.database, "box", "timed out")
    reader = RunReader(world.database)
    reader.read({}, hosts.every(world.database))
    assert set(reader.silent) == {"box"}
