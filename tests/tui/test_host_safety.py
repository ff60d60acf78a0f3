"""Whether a host is safe to destroy: one answer, on Runs, on Sync and on Hosts."""

from __future__ import annotations

import dataclasses
import json
import time
from typing import Any

import pytest
from textual.pilot import Pilot

from armada.__main__ import main
from armada.store import checkpoints, hosts, labels, run_sync, transfers
from armada.store.transfers import Transfer
from armada.tui.screens.host_card import wrapped
from armada.tui.symbols import UNICODE
from armada.tui.widgets.host_safety import Safety, in_brief, safety_lines, verdict
from tests.tui.conftest import World, drive, lacks, shows

NOW = 1000.0


def host(*, running: int = 0, since: float | None = None, **counts: int) -> Safety:
    """A host with these checkpoints and active runs, unreachable `since` a moment."""
    made = Safety("box", **counts)
    made.running, made.unreachable_since = running, since
    return made


def travel(count: int) -> list[Transfer]:
    facts: dict[str, Any] = dict.fromkeys(Transfer.__dataclass_fields__)
    facts |= {"run_id": "a", "state": "running", "done_bytes": 50, "total_bytes": 100, "rate": 10.0, "tries": 0}
    return [Transfer(**(facts | {"digest": f"{number}"})) for number in range(count)]


@pytest.mark.parametrize(
    ("safety", "moving", "sign", "style", "words"),
    [
        (host(home=1, only_host=7), 1, "▲", "warn", "not safe to destroy: 6 checkpoints only there, 1 on the way"),
        (host(only_host=1), 1, "●", "plain", "not safe to destroy: 1 on the way"),
        (host(running=4), 0, "●", "plain", "not safe to destroy: 4 active runs, no checkpoint yet"),
        (host(running=1, home=3), 1, "●", "plain", "not safe to destroy: 1 active run, 1 on the way"),
        (
            host(damaged=2, only_host=3),
            0,
            "▲",
            "warn",
            "not safe to destroy: 2 damaged at home, 3 checkpoints only there",
        ),
        (host(damaged=1, home=2), 0, "▲", "warn", "not safe to destroy: 1 damaged at home, 2 home"),
        (
            host(running=1, damaged=2, only_host=3, since=NOW - 60),
            1,
            "◌",
            "warn",
            "unreachable 1 m, 2 damaged at home, 2 checkpoints only there, 1 active run, 1 on the way",
        ),
        (host(home=5), 0, "✓", "good", "5 checkpoints home"),
        (host(home=5, unsynced=1), 0, "▲", "warn", "not safe to destroy: the last sync of 1 run is missing, 5 home"),
    ],
)
def test_all_that_would_be_lost_is_said(safety: Safety, moving: int, sign: str, style: str, words: str) -> None:
    found, said = verdict(UNICODE, safety, travel(moving), NOW)
    text = "".join(part for part, _ in said)
    assert (found, text[: len(words)]) == ((sign, style), words)
    assert in_brief(UNICODE, safety, travel(moving), NOW)[0] == f"{sign} {'all home' if sign == '✓' else 'not safe'}"
    is_good = [name for _, name in said if name == "good"]
    assert bool(is_good) == (sign == "✓"), "green is for what is at home"


@pytest.mark.parametrize(
    ("counts", "said", "brief"),
    [
        ({"home": 131}, "✓ local  131 checkpoints home · this machine", "✓ all home"),
        ({"home": 1, "only_host": 2}, "▲ local  not all home: 2 checkpoints only there, 1 home", "▲ not home"),
        ({"damaged": 1}, "▲ local  not all home: 1 damaged at home", "▲ not home"),
    ],
)
def test_this_machine_with_home_on_it_is_not_said_to_be_destroyed(
    counts: dict[str, int], said: str, brief: str
) -> None:
    here = Safety("local", **counts)
    for room in (120, 30):
        (line,) = safety_lines(UNICODE, [here], {}, NOW, room)
        assert "".join(part for part, _ in line) == said
    assert in_brief(UNICODE, here, [], NOW)[0] == brief


def test_a_host_that_was_wiped_or_removed_need_not_be_asked(world: World) -> None:
    world.hosts(box={"ssh": "root@192.0.2.1"}, wiped={"ssh": "root@192.0.2.2"})
    for host in ("box", "wiped", "gone"):
        world.run(f"{host}-aaaaaa", host=host, state="succeeded")
        world.checkpoint(f"{host}-aaaaaa", 5, home=True)
        world.last_sync(f"{host}-aaaaaa")
    hosts.mark_released(world.database, "wiped", time.time())
    world.run("lost-aaaaaa", host="lost", state="succeeded")

    async def use(pilot: Pilot[None]) -> None:
        for key in ("1", "4"):
            await pilot.press(key)
            seen = await shows(pilot, "1 checkpoint home · removed", "1 checkpoint home · wiped")
            assert seen.count("· removed") == 1
            lost = next(line for line in seen.splitlines() if "▲ lost" in line)
            assert "removed: the last sync of 1 run is missing, no checkpoint yet" in lost, lost
            lines = [line for line in seen.splitlines() if "3 r before you destroy" in line]
            assert len(lines) == 1, seen
            assert "box" in lines[0]

    drive(world.board(), use, (240, 48))


def test_in_a_narrow_panel_the_words_are_short() -> None:
    for room, words in ((70, "not safe to destroy: 6 checkpoints"), (40, "not safe: 6 checkpoints")):
        (line,) = safety_lines(UNICODE, [host(only_host=6)], {}, NOW, room)
        assert words in "".join(part for part, _ in line)


@pytest.mark.parametrize(
    ("room", "head", "picture"), [(90, "not safe to destroy: ", 24), (70, "not safe: ", 24), (55, "not safe: ", 9)]
)
def test_where_short_words_do_not_fit_either_the_pictures_are_short(room: int, head: str, picture: int) -> None:
    def draw(safety: Safety, moving: int, is_narrow: bool) -> list[tuple[str, str]]:
        assert (safety.only_host, moving) == (6, 0)
        return [("=" * (9 if is_narrow else 24), "good")]

    (line,) = safety_lines(UNICODE, [host(only_host=6)], {}, NOW, room, draw)
    text = "".join(part for part, _ in line)
    assert text.count("=") == picture
    assert text.split("=")[-1] == f"{head}6 checkpoints only there"


def test_runs_sync_and_hosts_give_the_same_answer(world: World) -> None:
    world.hosts(box={"ssh": "root@192.0.2.1"}, calm={"ssh": "me@192.0.2.2"})
    world.run("half-aaaaaa", host="box", state="failed")
    for step in range(1, 9):
        world.checkpoint("half-aaaaaa", step, home=step == 1)
    moving = f"{2:064x}"
    transfers.begin(world.database, "half-aaaaaa", moving, 2_100_000_000)
    transfers.progress(world.database, "half-aaaaaa", moving, 1_050_000_000, 22e6)
    checkpoints.mark_trouble(world.database, "half-aaaaaa", f"{1:064x}", "damaged at home: model.safetensors")
    world.run("busy-bbbbbb", host="calm")
    box = "1 damaged at home, 7 checkpoints only there, 1 on the way"
    both = (f"not safe to destroy: {box}", "not safe to destroy: 1 active run")

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, f"▲ box   not safe: {box}", "● calm  not safe: 1 active run")
        await pilot.press("4")
        await shows(pilot, "disk at home", *both)
        await pilot.press("3")
        rows = (await shows(pilot, "▲ not safe", "● not safe")).splitlines()
        assert next(row for row in rows if "▲ not safe" in row and " box " in row)
        assert next(row for row in rows if "● not safe" in row and " calm " in row)
        await pilot.press("home", "enter", "down", "enter", "down", "enter")
        await shows(pilot, *both)

    drive(world.board(), use, (240, 48))


def test_a_host_is_not_safe_before_the_last_sync_of_each_of_its_runs(world: World) -> None:
    world.hosts(box={"ssh": "root@192.0.2.1"})
    for run_id in ("none-aaaaaa", "some-bbbbbb"):
        world.run(run_id, state="succeeded")
    world.checkpoint("some-bbbbbb", 5, home=True)
    run_sync.failed(world.database, "some-bbbbbb", now=time.time(), reason="not readable", next_due_at=time.time() + 60)

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "▲ box", "the last sync of 2 runs is missing")
        await pilot.press("4")
        seen = await shows(pilot, "disk at home", "the last sync of 2 runs is missing")
        reason = "its last sync is missing: y brings home what box still has of it"
        assert seen.count(reason) == 1, "the other one says why it fails"
        world.last_sync("none-aaaaaa")
        await lacks(pilot, reason)
        await shows(pilot, "the last sync of 1 run is missing")
        await pilot.press("3")
        await shows(pilot, "▲ not safe")
        world.last_sync("some-bbbbbb")
        await shows(pilot, "✓ all home")

    drive(world.board(), use, (200, 48))


def test_a_run_whose_last_sync_is_missing_comes_before_those_whose_checkpoints_travel_or_wait(world: World) -> None:
    world.hosts(box={"ssh": "root@192.0.2.1"})
    for run_id, state in (("lost-aaaaaa", "failed"), ("busy-bbbbbb", "running"), ("soon-cccccc", "succeeded")):
        world.run(run_id, name=run_id[:4], state=state)
    world.checkpoint("busy-bbbbbb", 5, home=False)
    transfers.begin(world.database, "busy-bbbbbb", f"{5:064x}", 2_100_000_000)
    run_sync.request(world.database, ["soon-cccccc"], time.time())

    async def use(pilot: Pilot[None]) -> None:
        await pilot.press("4")
        seen = await shows(pilot, "disk at home", "└ its last sync is missing: y brings home", "asked for")
        rows = [line.split()[1] for line in seen.splitlines() if (" box " in line and "ago" in line) or "never" in line]
        assert seen.count("its last sync is missing") == 1, "one that somebody asked for is coming"
        assert rows == ["lost", "busy", "soon"]

    drive(world.board(), use, (120, 36))


def test_of_runs_that_ended_without_a_checkpoint_is_said_that_there_is_nothing_to_keep(world: World) -> None:
    world.run("done-aaaaaa", host="local", state="succeeded")

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "What happened", "no run is active, and none has a checkpoint")
        await pilot.press("4")
        await shows(pilot, "disk at home", "no run is active, and none has a checkpoint", "everything is home")

    drive(world.board(), use, (120, 36))


def damage(world: World, run_id: str, *, state: str = "succeeded", is_final: bool = True) -> None:
    """A run with a checkpoint at home that is no longer as it came."""
    world.run(run_id, name=run_id[:4], state=state)
    digest = world.checkpoint(run_id, 1, home=True)
    now = time.time()
    run_sync.succeeded(world.database, run_id, began=now, next_due_at=now + 60, final_of=1 if is_final else None)
    checkpoints.mark_trouble(world.database, run_id, digest, "damaged at home: model.safetensors")


def test_a_checkpoint_damaged_at_home_that_no_sync_mends_needs_you_with_the_key(world: World) -> None:
    world.run("good-aaaaaa", state="succeeded")
    damage(world, "hurt-bbbbbb")
    damage(world, "busy-cccccc", state="running", is_final=False)
    damage(world, "soon-dddddd", is_final=False)
    damage(world, "past-eeeeee")
    labels.archive(world.database, "past-eeeeee", on=True)
    reason = "1 checkpoint damaged at home"

    async def use(pilot: Pilot[None]) -> None:
        seen = await shows(pilot, "▲ 1 needs you", f"{reason}   y sync now")
        assert seen.count(reason) == 1
        rows = [line for line in seen.splitlines() if "damaged" in line or " good " in line]
        assert "▲ hurt" in rows[0], "it is the first one"
        assert "hurt succeeded" in seen
        await pilot.press("slash", *"is:trouble", "enter")
        await shows(pilot, "1 of 5 runs")
        await pilot.press("enter")
        await shows(pilot, "needs you    1 checkpoint damaged at home; `armada sync verify")
        await pilot.press("4")
        seen = await shows(pilot, "not planned", f"{reason}: y fetches again what box still has")
        assert seen.count("y fetches again") == 2  # of the archived one too

    drive(world.board(), use, (160, 44))


def test_filters_of_commands_find_it_too(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    damage(world, "hurt-bbbbbb")
    damage(world, "soon-dddddd", is_final=False)
    assert main(("ps", "--cached", "--json", "is:trouble")) == 0
    assert [run["run_id"] for run in json.loads(capsys.readouterr().out)] == ["hurt-bbbbbb"]


def test_a_transfer_that_receives_nothing_waits_and_has_no_pace() -> None:
    live, *still = travel(3)
    still = [dataclasses.replace(each, updated_at=NOW - 500) for each in still]
    (sign, style), said = verdict(UNICODE, host(home=1, only_host=4), [live, *still], NOW)
    assert (sign, style) == ("▲", "warn")
    words = "".join(part for part, _ in said)
    assert words.startswith("not safe to destroy: 2 transfers without progress for 8 m, 3 checkpoints only there, 1 on")
    assert "10 B/s, 5 s left" in words
    (sign, _), said = verdict(UNICODE, host(home=1, only_host=1), still[:1], NOW)
    words = "".join(part for part, _ in said)
    assert (sign, words[-8:]) == ("▲", ", 1 home")
    assert not any(each in words for each in ("/s", "left", "on the way"))


@pytest.mark.parametrize("size", [(80, 24), (160, 44)])
def test_a_transfer_that_receives_nothing_says_so_first_on_every_screen(world: World, size: tuple[int, int]) -> None:
    world.run("demo-aaaaaa", host="box")
    for step in (14_300, 14_400):
        world.checkpoint("demo-aaaaaa", step, home=False)
        transfers.begin(world.database, "demo-aaaaaa", f"{step:064x}", 2_100_000_000)
        transfers.progress(world.database, "demo-aaaaaa", f"{step:064x}", 1_300_000_000, 22e6)

    async def use(pilot: Pilot[None]) -> None:
        await pilot.press("4")
        await shows(pilot, "44.0 MB/s incoming", "1.3 GB · 22.0 MB/s · 36 s left", "● box", "2 on the way")
        old = time.time() - 490  # "8 m" for the next 50 s
        with world.database.transaction() as connection:  # no reading comes between
            connection.execute("UPDATE transfers SET updated_at = ? WHERE digest LIKE '%37dc'", (old - 1,))
            connection.execute("UPDATE transfers SET updated_at = ? WHERE digest LIKE '%3840'", (old,))
        seen = await shows(pilot, "62%  no progress for 8 m · 1.3 GB ", "▲ box")
        assert "2 transfers without progress for 8 m" in seen
        assert "/s" not in "".join(line for line in seen.splitlines() if "GB" in line or "box" in line)
        await pilot.press("enter")
        await shows(pilot, "checkpoint-14400", "no progress for 8 m")
        await lacks(pilot, "MB/s")
        await pilot.press("o")
        await lacks(pilot, "MB/s")

    drive(world.board(), use, size)


@pytest.mark.parametrize("room", range(40, 120))
def test_no_bar_of_a_card_is_broken(room: int) -> None:
    bar = UNICODE.meter(0.6, 10)
    said = verdict(UNICODE, host(home=1, only_host=3), travel(2), NOW)[1]
    (done, _), (rest, _) = [(text, style) for text, style in said if style in ("accent", "faint")]
    assert len(done + rest) == len("".join(bar))
    lines = ["".join(text for text, _ in line) for line in wrapped((("safe?        ", "dim"), *said), room)]
    assert sum(done + rest in line for line in lines) == 1
    assert all(len(line.rstrip()) <= room for line in lines)
    told = "safe? " + "".join(text for text, _ in said)
    assert " ".join(" ".join(lines).split()) == " ".join(told.split())


def test_what_goes_on_in_a_card_has_no_guide_of_its_own(world: World) -> None:
    world.hosts(box={"ssh": "root@192.0.2.1"})
    world.run("demo-aaaaaa", host="box")
    world.checkpoint("demo-aaaaaa", 14_200, home=False)
    for step in (14_300, 14_400):
        world.checkpoint("demo-aaaaaa", step, home=False)
        transfers.begin(world.database, "demo-aaaaaa", f"{step:064x}", 2_100_000_000)
        transfers.progress(world.database, "demo-aaaaaa", f"{step:064x}", 1_300_000_000, 22e6)

    async def use(pilot: Pilot[None]) -> None:
        await pilot.press("3")
        await shows(pilot, "box")
        await pilot.press("home", "enter")
        seen = await shows(pilot, "safe?", "2 on the way", "health")
        lines = [line.strip("│ ▐") for line in seen.splitlines()]
        begun = [line.startswith("└") for line in lines]
        first = next(place for place, line in enumerate(lines) if "safe?" in line)
        last = next(place for place, line in enumerate(lines) if "health" in line)
        assert last > first + 1, "it has several lines"
        assert begun[first : last + 1] == [True, *[False] * (last - first - 1), True]

    drive(world.board(), use, (80, 24))
