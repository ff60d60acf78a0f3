"""What goes on around an open dashboard: the daemon dies, the store is locked, the terminal has no colour."""

from __future__ import annotations

import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time

import pytest
from textual.pilot import Pilot

from armada.store import runs
from armada.store.database import Database
from armada.tui import operations
from armada.verdicts.states import Verdict
from tests.conftest import eventually
from tests.tui.conftest import World, drive, lacks, said, screen, shows, strips, until


def test_a_daemon_that_is_killed_is_said_to_have_ended_and_the_rest_stays_right(world: World) -> None:
    world.run("demo-aaaaaa", host="local", state="queued")
    daemon = subprocess.Popen(
        [sys.executable, "-m", "armada", "daemon", "run"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa", "daemon ✓")
        daemon.kill()
        daemon.wait()
        await shows(pilot, "daemon ended", "demo-aaaaaa")
        with Database(world.home.store) as database:
            runs.record(database, "demo-aaaaaa", Verdict("running", attempt=9, seq=9), step=1, total_steps=2)
        await shows(pilot, "50%")

    try:
        drive(world.board(), use)
    finally:
        daemon.kill()
        daemon.wait()


def test_the_dashboard_starts_the_daemon_that_is_missing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ARMADA_NO_DAEMON")
    world.run("demo-aaaaaa", host="local", state="queued")

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "no daemon")
        await until(pilot, lambda: "daemon ✓" in screen(pilot))

    try:
        drive(world.board(watch=True), use)
    finally:
        subprocess.run([sys.executable, "-m", "armada", "daemon", "stop"], capture_output=True, check=False, timeout=60)


def test_a_long_write_by_somebody_else_keeps_nobody_from_reading(world: World) -> None:
    world.run("demo-aaaaaa")
    with Database(world.home.store) as writer:
        writer.connection.execute("BEGIN EXCLUSIVE")
        writer.connection.execute("UPDATE runs SET step = 1, total_steps = 2")

        async def use(pilot: Pilot[None]) -> None:
            await shows(pilot, "demo-aaaaaa", "running 1 h")
            writer.connection.execute("COMMIT")
            await shows(pilot, "50%")

        drive(world.board(), use)


def test_a_store_that_is_locked_altogether_is_said_to_be_and_comes_back(world: World) -> None:
    world.run("demo-aaaaaa")
    world.database.close()
    thief = sqlite3.connect(world.home.store, isolation_level=None)
    thief.execute("PRAGMA locking_mode = EXCLUSIVE")
    thief.execute("UPDATE runs SET step = 1, total_steps = 2")

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "the store cannot be read: another program has locked the store")
        thief.close()
        await shows(pilot, "demo-aaaaaa", "50%")
        await lacks(pilot, "cannot be read")

    drive(world.board(), use)


def test_a_terminal_without_colour_gets_none(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    world.run("demo-aaaaaa", step=5, total_steps=10)
    world.losses("demo-aaaaaa", [3.0, 2.0, 1.0])
    world.run("dead-bbbbbb", state="failed", reason="oom")

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa", "✗", "●", "▸", "50%")
        colours = {
            tuple(colour.triplet)
            for strip in strips(pilot.app)
            for _, style, _ in strip
            if style is not None
            for colour in (style.color, style.bgcolor)
            if colour is not None and colour.triplet is not None
        }
        assert all(max(each) - min(each) <= 2 for each in colours), colours

    drive(world.board(), use)


def test_a_tiny_terminal_shows_the_run_under_the_cursor(world: World) -> None:
    for letter in "abcdefgh":
        world.run(f"run-{letter * 6}", state="failed", reason="oom")

    async def use(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: "run-" in screen(pilot))
        await pilot.press("end")
        await until(pilot, lambda: "run-a" in screen(pilot))
        await pilot.resize_terminal(100, 30)
        await shows(pilot, "8 of 8 runs", "run-aaaaaa", "run-hhhhhh")

    drive(world.board(), use, (20, 5))


def cut_before_the_bar(line: str) -> bool:
    """Whether a text is cut, and then come the bar and the border."""
    return line[:-2].rstrip().endswith("…")


def test_the_bar_of_a_long_list_covers_no_text(world: World) -> None:
    for letter in "abcdefghijklmnop":
        world.run(f"run-{letter * 6}", state="failed", reason="oom", message=f"of {letter * 100}")

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "16 of 16 runs", "└ oom")
        await until(
            pilot, lambda: all(cut_before_the_bar(line) for line in screen(pilot).splitlines() if "└ oom" in line)
        )

    drive(world.board(), use, (80, 24))


def test_a_store_that_another_one_replaces_is_shown_instead(world: World) -> None:
    """As `armada recover` does it: the new file takes the name at once."""
    world.run("old-aaaaaa")

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "old-aaaaaa")
        other = world.home.store.with_name("other.db")
        with Database(other) as fresh:
            spec: dict[str, object] = {"job": {"argv": ["true"]}, "experiment": {}}
            runs.insert(fresh, run_id="new-bbbbbb", name="new", host="box", task="sft", experiment=None, spec=spec)
        for ending in ("-wal", "-shm"):  # a log of the old file would be read as the new one's
            world.home.store.with_name(world.home.store.name + ending).unlink(missing_ok=True)
        other.replace(world.home.store)
        await shows(pilot, "new bbbbbb", "1 of 1 runs")
        await lacks(pilot, "old-aaaaaa")

    drive(world.board(), use)


def test_pages_that_are_opened_while_the_store_is_away_do_not_say_that_they_are_being_read(world: World) -> None:
    world.run("demo-aaaaaa", state="running")

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        away = world.home.store.rename(world.home.store.with_name("away.db"))
        await shows(pilot, "the store is gone")
        await pilot.press("enter")
        for tab in "hef":  # checkpoints, events, config
            await pilot.press(tab)
            await shows(pilot, "cannot read the store")
            assert "reading …" not in screen(pilot)
        away.rename(world.home.store)
        await lacks(pilot, "cannot read the store")

    drive(world.board(), use)


def test_a_store_that_was_never_read_does_not_say_that_it_is_empty(world: World) -> None:
    world.database.close()
    for ending in ("", "-wal", "-shm"):
        world.home.store.with_name(world.home.store.name + ending).write_bytes(b"no database" * 400)

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "the store cannot be read", "cannot read the store")
        await pilot.press("4")
        await shows(pilot, "SYNC", "cannot read the store")
        await lacks(pilot, "no runs yet")

    drive(world.board(), use)


def test_a_clock_that_goes_back_by_a_day_shows_no_negative_age_and_stops_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    wall = time.time
    world.run("demo-aaaaaa", step=3, total_steps=9, step_time_s=1.0)
    world.losses("demo-aaaaaa", [3.0, 2.0])
    world.checkpoint("demo-aaaaaa", 2, home=True)
    world.run("dead-bbbbbb", state="failed", reason="oom")

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "2 of 2 runs")
        monkeypatch.setattr(time, "time", lambda: wall() - 86_400)
        world.losses("demo-aaaaaa", [1.25])
        await shows(pilot, "1.25")
        for keys in (["2"], ["c"], ["h"], ["e"], ["3"], ["4"], ["7"], ["escape", "8"]):
            await pilot.press(*keys)
            await pilot.pause()
            assert not re.search(r"(?<![\w.])-\d+ ?[smhd]\b", screen(pilot)), screen(pilot)

    drive(world.board(), use)


def sizeless() -> dict[str, str]:
    """Without the size of whoever runs the tests: a new pseudo-terminal says 0 by 0 of itself."""
    known = {name: value for name, value in os.environ.items() if name not in ("LINES", "COLUMNS")}
    return {**known, "TERM": "xterm-256color"}


def test_a_hangup_of_the_terminal_ends_it(world: World) -> None:
    """The window was closed, or the SSH connection it ran in went away: no dashboard stays behind."""
    import pty

    master, slave = pty.openpty()
    board = subprocess.Popen(
        [sys.executable, "-m", "armada", "dashboard", "--read-only"],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
        env=sizeless(),
    )
    os.close(slave)
    seen = bytearray()

    def read() -> None:
        try:
            while part := os.read(master, 65_536):
                seen.extend(part)
        except OSError:
            return  # the other end is closed

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        eventually(lambda: b"Nothing has been launched yet" in seen)
        board.send_signal(signal.SIGHUP)
        assert board.wait() == 1  # not killed by it: its screens have ended what they began
    finally:
        board.kill()
        board.wait()
        os.close(master)


def test_a_terminal_that_goes_without_a_signal_ends_it(world: World) -> None:
    """As in a container whose client went away: nobody sends SIGHUP, and reading the terminal finds its end at once."""
    import pty
    import select

    master, slave = pty.openpty()
    board = subprocess.Popen(
        [sys.executable, "-m", "armada", "dashboard", "--read-only"],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
        env=sizeless(),
    )
    os.close(slave)
    seen = bytearray()

    def is_drawn() -> bool:
        if select.select([master], [], [], 0)[0]:
            seen.extend(os.read(master, 65_536))
        return b"Nothing has been launched yet" in seen

    try:
        try:
            eventually(is_drawn)
        finally:
            os.close(master)
        assert eventually(lambda: board.poll() is not None)
        assert board.returncode == 1
    finally:
        board.kill()
        board.wait()


def test_an_act_on_a_full_disk_ends_with_the_reason(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.run("demo-aaaaaa", state="succeeded")
    home = world.home
    full = shutil.disk_usage(home.state)._replace(free=0)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: full)
    monkeypatch.setattr(operations, "command", lambda *_: ["false"])

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        await pilot.press("asterisk")
        await until(pilot, lambda: "operations is full, so what it said is lost" in said(pilot))

    drive(world.board(), use)


def test_an_act_that_can_have_no_file_for_its_output_is_not_started_and_says_so(world: World) -> None:
    world.run("demo-aaaaaa", state="succeeded")
    folder = world.home.state / "dashboard"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "operations").write_text("a file is in the way")

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        await pilot.press("asterisk")
        await until(
            pilot, lambda: "star demo-aaaaaa: not started, as there can be no file for its output" in said(pilot)
        )
        await shows(pilot, "demo-aaaaaa")

    drive(world.board(), use)
