"""Hosts, against a real store: what is told of each, and the history of its GPUs. What is done to them: tests/fleet."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from armada_agent.foundation import process_identity
from armada_agent.paths import RunPaths
from textual.pilot import Pilot

from armada.paths import HomePaths
from armada.protocol.facts import GpuKind, Hardware
from armada.provision.environment_key import environment_key
from armada.store import hosts, telemetry
from armada.tui.operations import Answer
from armada.tui.screens.host_text import time_limit
from armada.tui.screens.verdict import show_verdict
from tests.tui.conftest import World, drive, lacks, said, screen, shows, until


def gpu(index: int, *users: dict[str, Any]) -> dict[str, Any]:
    total = 80 << 30
    facts = {"index": index, "name": "NVIDIA A100", "memory_total_bytes": total, "memory_used_bytes": total // 2}
    return {**facts, "utilization": 50, "processes": list(users)}


def cpu_key(home: HomePaths) -> str:
    from armada.config.profiles import load_profile

    return environment_key(load_profile("cpu", home), Hardware("x86_64", gpus=(GpuKind("NVIDIA A100"),)))


def test_who_uses_each_gpu_and_who_waits_for_one(world: World) -> None:
    world.hosts(box={"ssh": "root@192.0.2.1"})
    world.run("mine-aaaaaa")
    world.run("next-bbbbbb", state="queued")
    waiting = [
        {"run_id": "next-bbbbbb", "since": time.time() - 2.5 * 86_400 - 1800},
        {"run_id": "far-cccccc", "since": time.time()},
    ]
    seats = [gpu(0, {"pid": 1, "run_id": "mine-aaaaaa"}), gpu(1, {"pid": 4711, "run_id": None}), gpu(2)]
    seats.append(gpu(3, {"pid": 2, "run_id": "theirs-dddddd"}))
    hosts.record_facts(
        world.database, "box", {"gpus": seats, "queue": {"waiting": waiting, "summary": "7 ahead of mine"}}
    )

    async def use(pilot: Pilot[None]) -> None:
        await pilot.press("3")
        seen = await shows(pilot, "2 runs, 2 wait", "▃▃▃▃      50%")
        assert "wait for GPUs" not in seen  # a line, until it is unfolded
        await pilot.resize_terminal(250, 30)
        await shows(pilot, "2 runs, 2 wait, 1 GPU free  mine-aaaaaa (0)")
        await pilot.resize_terminal(140, 40)
        await pilot.press("enter")
        await shows(pilot, "2 wait for GPUs: next-bbbbbb 2 d 12 h, far-cccccc (of another home)")
        seen = await shows(pilot, "/80 GiB")
        lines = {line.strip("│└ ").split()[0]: line.rstrip("│ ") for line in seen.splitlines() if "/80 GiB" in line}
        for index, user in enumerate(("mine-aaaaaa", "stranger (pid 4711)", "free", "theirs-dddddd (of another home)")):
            assert lines[str(index)].endswith(f"  {user}")
        await pilot.press("left")
        await lacks(pilot, "/80 GiB")

    drive(world.board(), use)


def test_what_a_batch_system_said_of_its_queue_is_told(world: World) -> None:
    world.hosts(box={"ssh": "me@192.0.2.1", "scheduler": "slurm"})
    boost = {"name": "boost", "state": "up", "time_limit": "1-00:00:00", "nodes": 64, "cpus": 9, "cpus_free": 1}
    answer = {"mine": {"RUNNING": 2, "PENDING": 1}, "others": {"PENDING": 212}, "quota": "used\n4.7 % of 5.2 %\n"}
    queue = {**answer, "partitions": [{**boost, "gpus": 256, "gpus_free": 31}], "time": 1.0, "error": None}
    hosts.record_facts(world.database, "box", {"gpus": [], "queue": {"waiting": [], **queue}})

    async def use(pilot: Pilot[None]) -> None:
        await pilot.press("3")
        assert "mine:" not in await shows(pilot, "31 of 256 free")
        await pilot.press("enter")
        await shows(pilot, "mine: 2 running, 1 pending · others: 212 pending · quota: 4.7 % of 5.2 %")
        await shows(pilot, "boost  31 of 256 GPUs free · 64 nodes · up · at most 1 d", "set a `profile:`")
        await pilot.press("5")
        await shows(pilot, "not asked", "31 of 256 free")  # Launch says the same
        await pilot.press("escape", "3")
        hosts.record_facts(world.database, "box", {"gpus": [], "queue": {"error": "slurmctld is down"}})
        await shows(pilot, "its scheduler does not answer: slurmctld is down")

    drive(world.board(), use)


@pytest.mark.parametrize("condition", ["ready", "building", "partial", "absent"])
def test_the_environment_of_the_hosts_profile_has_a_state(world: World, condition: str) -> None:
    world.hosts(box={"ssh": "root@192.0.2.1", "profile": "cpu"})
    key = cpu_key(world.home)
    there = {key: condition} if condition != "absent" else {"cu130-000000000000": "ready"}
    hosts.record_facts(world.database, "box", {"gpus": [gpu(0)], "machine": "x86_64", "environments": there})

    async def use(pilot: Pilot[None]) -> None:
        await pilot.press("3")
        await shows(pilot, f"{condition} {key}")

    drive(world.board(), use, (160, 40))


def test_a_host_for_which_a_profile_is_derived_says_so(world: World) -> None:
    world.hosts(box={"ssh": "root@192.0.2.1"})
    hosts.record_facts(world.database, "box", {"gpus": [{**gpu(0), "name": "Voodoo 2"}], "machine": "x86_64"})

    async def use(pilot: Pilot[None]) -> None:
        await pilot.press("3")
        await shows(pilot, "no profile fits its GPUs: derived:1x-voodoo-2 is made from them")

    drive(world.board(), use)


def test_a_disk_that_is_foreseen_to_be_full_says_when_and_why(world: World) -> None:
    world.hosts(box={"ssh": "root@192.0.2.1"})
    hosts.record_facts(world.database, "box", {"gpus": [], "disk": {"free_bytes": 412e9, "total_bytes": 2e12}})
    now = time.time()
    forecast = hosts.DiskForecast(now, 412_000_000_000, 1e7, None, now + 31 * 3600 + 120)
    hosts.record_forecast(world.database, "box", forecast)

    async def use(pilot: Pilot[None]) -> None:
        await pilot.press("3")
        await shows(pilot, "412 GB", "disk full in about 1 d 7 h: its runs save 36.0 GB an hour")

    drive(world.board(), use)


def test_a_wiped_host_is_said_to_be_left_alone(world: World) -> None:
    world.hosts(box={"ssh": "root@192.0.2.1"})
    hosts.record_facts(world.database, "box", {"gpus": []})
    hosts.mark_released(world.database, "box", time.time() - 2.5 * 86_400)

    async def use(pilot: Pilot[None]) -> None:
        await pilot.press("3")
        await shows(pilot, "wiped 2 d 12 h ago: not watched until something is launched on it")

    drive(world.board(), use)


def load(world: World, host: str, since_s: float, every_s: float) -> None:
    """Fill the history of two GPUs."""
    now = time.time()
    moments = [now - since_s + every_s * number for number in range(int(since_s / every_s))]
    points = [telemetry.Point(index, at, 10.0 * index, 70 << 30, 312.0, 71.0) for at in moments for index in range(2)]
    telemetry.record(world.database, host, points)


def test_a_vast_terminal_says_what_all_gpus_do_beside_the_runs(world: World) -> None:
    world.hosts(
        box={"ssh": "root@192.0.2.1", "price_per_hour": 2.5}, spare={"ssh": "root@192.0.2.2", "price_per_hour": 7.0}
    )
    world.run("mine-aaaaaa")
    for host, count in (("box", 4), ("spare", 1)):
        hosts.record_facts(world.database, host, {"gpus": [gpu(index) for index in range(count)]})
    load(world, "box", 600, 20)

    async def use(pilot: Pilot[None]) -> None:
        seen = await shows(pilot, "What do the GPUs do?", "$2.50/h", "$7.00/h idle", "220/320 GiB")
        busy, idle = (next(line for line in seen.splitlines() if price in line) for price in ("$2.50/h", "$7.00/h"))
        assert busy.index("%") == idle.index("%")
        await pilot.press("3")
        seen = await shows(pilot, "$7.00/h")
        assert seen.count("40/80 GiB") == 3  # one line for each GPU: there is room
        await pilot.resize_terminal(150, 60)
        await lacks(pilot, "40/80 GiB")
        await pilot.press("1")
        await lacks(pilot, "What do the GPUs do?")

    drive(world.board(), use, (250, 60))


@pytest.mark.parametrize("size", [(80, 24), (120, 36)])
def test_a_host_without_gpus_has_no_charts_of_them(world: World, size: tuple[int, int]) -> None:
    world.hosts(box={"ssh": "root@192.0.2.1"}, far={"ssh": "root@192.0.2.2"})
    hosts.record_facts(world.database, "box", {"gpus": []})
    hosts.record_facts(world.database, "far", {"gpus": [gpu(0)]})

    async def use(pilot: Pilot[None]) -> None:
        await pilot.press("3")
        seen = await shows(pilot, "box has no GPU")
        assert "utilisation" not in seen
        await pilot.press("down")
        seen = await shows(pilot, "utilisation %")
        await lacks(pilot, "box has no GPU")
        assert all(seen.count(word) >= 4 for word in ("daemon records", "host")), "the sentence is wrapped, not cut"
        await pilot.press("up")
        await shows(pilot, "box has no GPU")

    drive(world.board(), use, size)


def test_the_history_of_the_gpus_is_drawn_for_the_host_under_the_cursor_over_several_spans(world: World) -> None:
    world.hosts(box={"ssh": "root@192.0.2.1"}, far={"ssh": "root@192.0.2.2"})
    for host in ("box", "far"):
        hosts.record_facts(world.database, host, {"gpus": [gpu(0), gpu(1)]})
    load(world, "box", 3000, 60)
    tick = time.strftime("%H:%M", time.localtime((time.time() - 1080) // 1800 * 1800))  # 18 to 48 minutes ago

    async def use(pilot: Pilot[None]) -> None:
        await pilot.press("3")
        measures = (
            *("utilisation %, 15 m", "  0 0  1 10"),
            *("memory GiB, 15 m", "  0 70  1 70"),
            *("power W, 15 m", "  0 312  1 312"),
            *("temperature °C, 15 m", "  0 71  1 71"),
        )
        seen = await shows(pilot, *measures)
        assert any(0x2800 < ord(character) <= 0x28FF for character in seen)
        assert tick not in "".join(line for line in seen.splitlines() if line.startswith("│        "))
        await pilot.press("minus")
        await shows(pilot, "box · power W, 1 h", tick)
        await pilot.press("minus", "minus", "minus", "minus", "minus")
        await shows(pilot, "box · power W, 7 d")
        await pilot.press("plus", "plus", "plus", "plus", "plus")
        await shows(pilot, "box · power W, 15 m")
        await pilot.press("down")
        await shows(pilot, "far", "the daemon records this while it watches the host")
        await pilot.press("v")
        await lacks(pilot, "the daemon records this")

    drive(world.board(), use, (160, 48))


def test_on_a_low_terminal_the_history_comes_by_a_key(world: World) -> None:
    world.hosts(box={"ssh": "root@192.0.2.1"})
    hosts.record_facts(world.database, "box", {"gpus": [gpu(0), gpu(1)]})
    load(world, "box", 600, 10)

    async def use(pilot: Pilot[None]) -> None:
        await pilot.press("3")
        await shows(pilot, "2×A100", "5%")
        await lacks(pilot, "utilisation")
        await pilot.press("v")
        await shows(pilot, "box · utilisation %", "temperature °C")
        await pilot.press("v")
        await lacks(pilot, "utilisation")
        assert "ENVIRONM" not in await shows(pilot, "2×A100", "5%")

    drive(world.board(), use, (80, 16))


def test_on_a_low_terminal_the_history_takes_the_lines_that_few_hosts_leave(world: World) -> None:
    world.hosts(box={"ssh": "root@192.0.2.1"})
    hosts.record_facts(world.database, "box", {"gpus": [gpu(0), gpu(1)]})
    load(world, "box", 600, 10)

    async def use(pilot: Pilot[None]) -> None:
        await pilot.press("3")
        await shows(pilot, "2×A100", "5%", "box · utilisation %", "temperature °C")
        await pilot.press("enter")  # its card takes them
        await lacks(pilot, "utilisation %")
        await pilot.press("enter")
        await shows(pilot, "utilisation %")
        await pilot.press("v")
        await lacks(pilot, "utilisation %")

    drive(world.board(), use, (80, 18))


def test_points_that_come_later_are_added_to_the_history(world: World) -> None:
    world.hosts(box={"ssh": "root@192.0.2.1"})
    hosts.record_facts(world.database, "box", {"gpus": [gpu(0)]})
    load(world, "box", 600, 10)

    async def use(pilot: Pilot[None]) -> None:
        await pilot.press("3")
        await shows(pilot, "box · power W, 15 m")
        await pilot.press("enter")
        await shows(pilot, "312 W")
        telemetry.record(world.database, "box", [telemetry.Point(0, time.time(), 99.0, 1 << 30, 123.0, 44.0)])
        await shows(pilot, "123 W", "44 °C", "box · power W, 15 m", "  0 123")

    drive(world.board(), use, (160, 48))


def test_the_address_is_copied(world: World) -> None:
    world.hosts(box={"ssh": "root@192.0.2.1:50022"})
    board = world.board()

    async def use(pilot: Pilot[None]) -> None:
        await pilot.press("3")
        await shows(pilot, "– box")
        await pilot.press("home", "Y")
        await until(pilot, lambda: board.clipboard == "root@192.0.2.1:50022")

    drive(board, use)


def test_this_machine_has_no_key_to_compare_and_is_asked_for_none(world: World) -> None:
    async def use(pilot: Pilot[None]) -> None:
        await pilot.press("3")
        await shows(pilot, "– local")
        await pilot.press("t")
        await until(pilot, lambda: "this machine has no key to compare" in said(pilot))
        assert not (world.home.state / "dashboard" / "operations").exists()

    drive(world.board(), use)


def test_a_look_that_finds_nobody_says_why_and_asks_nothing(world: World) -> None:
    world.hosts(gone={"ssh": "root@127.0.0.1:1"})

    async def use(pilot: Pilot[None]) -> None:
        await pilot.press("3")
        await shows(pilot, "– gone")
        await pilot.press("home", "t")
        await until(pilot, lambda: "gone shows no key" in said(pilot))
        assert len(pilot.app.screen_stack) == 2, screen(pilot)
        await pilot.press("r")
        await shows(pilot, "It is unknown what gone holds", "Home knows of nothing that is only there.")
        await pilot.press("d")
        await shows(pilot, "armada doctor -- gone")
        assert "release" not in said(pilot)

    drive(world.board(), use)


def test_an_environment_is_built_only_after_a_question(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.hosts(box={"ssh": "root@192.0.2.1"})
    started: list[list[str]] = []
    monkeypatch.setattr("armada.tui.operations.start", lambda home, title, words, tell, **_: started.append(words))

    async def use(pilot: Pilot[None]) -> None:
        await pilot.press("3")
        await shows(pilot, "– box")
        await pilot.press("home", "p")
        await shows(pilot, "Build the environment on box?", "packages of its profile", "downloaded to the host")
        await pilot.press("escape")
        await lacks(pilot, "Build the environment on box?")
        assert ["hosts", "provision", "box"] not in started
        await pilot.press("p")
        await shows(pilot, "Build the environment on box?")
        await pilot.press("y")
        await until(pilot, lambda: ["hosts", "provision", "box"] in started)

    drive(world.board(), use)


def test_the_release_of_an_empty_local_host_deletes_nothing_without_a_yes(world: World) -> None:
    async def use(pilot: Pilot[None]) -> None:
        await pilot.press("3")
        await shows(pilot, "– local")
        await pilot.press("r")
        await until(
            pilot, lambda: "local is this machine, where home is: nothing waits there to come home" in screen(pilot)
        )
        await pilot.press("d")  # there is nothing to drain
        await shows(pilot, "y release it")
        await pilot.press("escape")
        await lacks(pilot, "release it")
        await pilot.press("r")
        await until(pilot, lambda: "y release it" in screen(pilot))
        await pilot.press("y")
        await until(pilot, lambda: "release local done" in said(pilot))

    drive(world.board(), use)


def test_nothing_that_ended_runs_left_is_said_so(world: World) -> None:
    world.hosts(gone={"ssh": "root@127.0.0.1:1"})

    async def use(pilot: Pilot[None]) -> None:
        await pilot.press("3")
        await shows(pilot, "– local")
        await pilot.press("home", "x")
        await until(pilot, lambda: "it is unknown what ended runs left on gone" in said(pilot))
        await pilot.press("end", "x")
        await until(pilot, lambda: "no processes of ended runs on local" in said(pilot))

    drive(world.board(), use)


def test_what_an_ended_run_left_is_shown_and_ended_after_a_yes(world: World) -> None:
    world.run("over-aaaaaa", host="local", state="succeeded")
    root = world.home.state / "local"
    paths = RunPaths(str(root), "over-aaaaaa")
    Path(paths.submission(1)).mkdir(parents=True)
    supervisor = {**process_identity.identify(), "pid": 2**22 + 1}
    job = {"submission": 1, "scheduler": "direct", "supervisor": supervisor, "guardian": None, "time": 1.0}
    state = {"state": "succeeded", "submission": 1, "attempt": 1, "seq": 1}
    for path, record in ((paths.submission(1, "claim.json"), {}), (paths.submission(1, "job.json"), job)):
        Path(path).write_text(json.dumps(record))
    Path(paths.spec).write_text(json.dumps({"run_id": "over-aaaaaa"}))
    Path(paths.state).write_text(json.dumps(state))
    mark = {**os.environ, "ARMADA_RUN_ID": "over-aaaaaa", "ARMADA_ROOT": str(root)}

    async def use(pilot: Pilot[None]) -> None:
        await pilot.press("3")
        await shows(pilot, "– local")
        await pilot.press("x")
        await shows(pilot, "End 1 process of 1 run on local?", "over-aaaaaa: it has ended", f"{left.pid} sleep, for")
        await pilot.press("n")
        await lacks(pilot, "End 1 process")
        assert left.poll() is None
        await pilot.press("colon", *"hosts reap local", "enter")
        await shows(pilot, "End 1 process of 1 run on local?")
        await pilot.press("y")
        await until(pilot, lambda: left.poll() is not None)
        await until(pilot, lambda: "reap local done" in said(pilot))

    with subprocess.Popen(["sleep", "1000"], env=mark) as left:
        try:
            drive(world.board(), use, (120, 40))
        finally:
            left.kill()


def test_a_hosts_card_says_link_disk_money_environment_safety_and_health(world: World) -> None:
    world.hosts(
        box={"ssh": "root@192.0.2.1:50022", "price_per_hour": 12.0, "budget": "$500", "profile": "cpu"},
        calm={"ssh": "me@192.0.2.2"},
    )
    now = time.time()
    world.run("old-aaaaaa", state="succeeded", started_at=now - 6 * 3600, ended_at=now - 3 * 3600)
    world.checkpoint("old-aaaaaa", 100, home=False)
    seats = [gpu(0, {"pid": 4711, "run_id": None}), gpu(1)]
    disk = {"free_bytes": 9e9, "total_bytes": 1e12}
    hosts.record_facts(world.database, "box", {"gpus": seats, "disk": disk, "machine": "x86_64", "environments": {}})
    hosts.was_seen_before(world.database, "box", now - 6 * 3600)
    hosts.record_facts(world.database, "calm", {"gpus": []})
    hosts.record_forecast(world.database, "box", hosts.DiskForecast(now, 9 * 10**9, 1e6, None, now + 3 * 3600 - 60))
    telemetry.record(world.database, "box", [telemetry.Point(0, now, 99.0, 1 << 30, 123.0, 91.0)])

    async def use(pilot: Pilot[None]) -> None:
        await pilot.press("3")
        await shows(pilot, ": it costs $12.00/h all the same")
        await pilot.press("home", "enter")
        await shows(
            pilot,
            *("link         root@192.0.2.1:50022 · answered", "9.0 GB free of 1.0 TB · full in about 2 h "),
            *("$12.00/h · $7", " of it idle (3 h ", ") · budget $500 · idle for 3 h "),
            *("absent", "p builds it", "▲ not safe to destroy: 1 checkpoint only there"),
            "▲ a GPU has 91 °C; its disk has 9.0 GB left; strangers use 1 GPU",
        )
        assert "it costs" not in screen(pilot)
        await pilot.press("left", "down", "right")
        await shows(pilot, "me@192.0.2.2", "home knows of nothing there", "✓ nothing wrong in what it last said")
        assert "money" not in screen(pilot)

    drive(world.board(), use, (160, 48))


def test_from_its_row_a_host_is_diagnosed_and_removed(world: World) -> None:
    world.hosts(gone={"ssh": "root@127.0.0.1:1"})
    world.run("kept-aaaaaa", host="gone", state="failed")

    async def use(pilot: Pilot[None]) -> None:
        await pilot.press("3")
        await shows(pilot, "– gone")
        await pilot.press("home", "d")
        await shows(pilot, "armada doctor -- gone", "ended with 4")
        await pilot.press("escape", "end", "D")
        await until(pilot, lambda: "this machine is built in and stays" in said(pilot))
        await pilot.press("home", "D")
        await shows(pilot, "Remove gone?", "1 run of it stays in the list")
        await pilot.press("y")
        await until(pilot, lambda: "remove gone done" in said(pilot))
        await lacks(pilot, "– gone")

    drive(world.board(), use)


def test_a_host_that_holds_nothing_can_be_wiped_after_a_second_question(world: World) -> None:
    board = world.board()

    async def use(pilot: Pilot[None]) -> None:
        await pilot.press("3")
        await shows(pilot, "– local")
        answer = Answer(0, '{"safe": true, "scheduler": "direct", "items": []}', "")
        show_verdict(board, "local", answer)
        await pilot.press("w")
        await shows(pilot, "Delete all of armada's files on local?")
        await pilot.press("n")
        await lacks(pilot, "Delete all")
        assert "wipe" not in said(pilot)
        show_verdict(board, "local", answer)
        await pilot.press("w", "y")
        await until(pilot, lambda: "wipe local done" in said(pilot))

    drive(board, use)


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("1-00:00:00", "1 d"),
        ("00:30:00", "30 m"),
        ("36:00:00", "1 d 12 h"),
        ("90:00", "1 h 30 m"),
        ("UNLIMITED", "UNLIMITED"),
    ],
)
def test_a_limit_of_slurm_is_read_as_a_span(written: str, shown: str) -> None:
    assert time_limit(written) == shown
