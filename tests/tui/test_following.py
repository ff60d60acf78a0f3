"""Following the log of a run on a host: each dashboard by itself, and anew once it has ended."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from textual.pilot import Pilot

from armada.store import runs
from armada.tui import logs
from armada.tui.screens.run import RunScreen
from armada.verdicts.states import Verdict
from tests.tui.conftest import World, drive, shows, until
from tests.waiting import WITHIN_S


class Host:
    """Answers `armada logs`, each time with the next of several scripts; the last one remains."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *scripts: str) -> None:
        self.asked = 0
        self._scripts = scripts
        monkeypatch.setattr(logs, "command", self._command)

    def _command(self, *_: str) -> list[str]:
        script = self._scripts[min(self.asked, len(self._scripts) - 1)]
        self.asked += 1
        return ["sh", "-c", script]


FOLLOWS = """\
import sys, time
for line in iter(open(sys.argv[1]).readline, None):
    print(end=line, flush=True)
    time.sleep(0 if line else 0.05)
"""


def follower_of(pilot: Pilot[None]) -> logs.Follower:
    screen = pilot.app.screen
    assert isinstance(screen, RunScreen)
    assert screen._follower is not None  # noqa: SLF001
    return screen._follower  # noqa: SLF001


def log_of(pilot: Pilot[None]) -> Path | None:
    """The file that the log shows."""
    screen = pilot.app.screen
    assert isinstance(screen, RunScreen)
    return screen.log_view.file.path if screen.log_view.file is not None else None


def test_two_dashboards_follow_the_same_log_each_in_a_file_of_its_own(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.run("demo-aaaaaa")
    source = tmp_path / "source"
    source.write_text("first line\n")
    monkeypatch.setattr(logs, "command", lambda *_: [sys.executable, "-c", FOLLOWS, str(source)])

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        await pilot.press("l")
        await shows(pilot, "first line", "following")
        with monkeypatch.context() as patch:
            patch.setattr(os, "getpid", os.getppid)
            other = logs.Follower(world.home, "demo-aaaaaa")
            other.start()
        assert other.path != follower_of(pilot).path
        await until(pilot, lambda: other.path.read_text() == "first line\n")
        other.stop()
        with source.open("a") as file:
            file.write("second line\n")
        await shows(pilot, "second line", "following")

    drive(world.board(), use)
    folder = world.home.state / "dashboard" / "logs"
    assert [path.name for path in folder.iterdir()] == ["demo-aaaaaa.log"], "the copy at home remains"
    assert (folder / "demo-aaaaaa.log").read_text() == "first line\nsecond line\n"


def test_what_killed_dashboards_have_left_is_deleted_and_what_others_write_stays(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    Host(monkeypatch, "echo one")
    gone = subprocess.Popen(["true"])
    gone.wait()
    folder = world.home.state / "dashboard" / "logs"
    folder.mkdir(parents=True)
    for name in (f"a-1.{gone.pid}.log", f"a-1.{gone.pid}.err", f"a-1.{os.getppid()}.log", "a-1.log", "a-1.x.log"):
        (folder / name).touch()
    (folder / f"a-12.{gone.pid}.log").touch()
    follower = logs.Follower(world.home, "a-1")
    follower.start()
    left = {path.name for path in folder.iterdir()} - {follower.path.name, follower.errors.name}
    assert left == {f"a-1.{os.getppid()}.log", "a-1.log", "a-1.x.log", f"a-12.{gone.pid}.log"}
    follower.stop()


def test_a_log_whose_following_has_failed_is_followed_again_on_its_key(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = Host(
        monkeypatch, "echo first; echo 'armada: box does not answer' >&2; exit 4", "echo again; exec sleep 1000"
    )
    world.run("demo-aaaaaa")

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        await pilot.press("l")
        await shows(pilot, "first", "box does not answer")
        await pilot.press("l")
        await shows(pilot, "again", "following")
        await pilot.press("l", "o", "l")
        assert host.asked == 2, "one that runs is kept"

    drive(world.board(), use)


def test_the_log_of_a_run_that_was_resumed_is_followed_again_on_its_key(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = Host(monkeypatch, "echo first attempt", "echo second attempt; exec sleep 1000")
    world.run("demo-aaaaaa")

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        await pilot.press("l")
        await shows(pilot, "first attempt")
        await until(pilot, lambda: follower_of(pilot).has_ended)
        ended = Verdict("failed", None, None, 1, 1, "evidence")
        runs.record(world.database, "demo-aaaaaa", ended, ended_at=time.time())
        await shows(pilot, "at the end")
        await pilot.press("l")
        assert host.asked == 1, "an ended run has nothing to follow"
        resumed = Verdict("running", None, None, 1, 2, "evidence")
        runs.record(world.database, "demo-aaaaaa", resumed, ended_at=None, went_back=True)
        await shows(pilot, "following")
        await pilot.press("l")
        await shows(pilot, "second attempt", "following")

    drive(world.board(), use)


class SlowDisk:
    """Copies files when it is told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.began, self.may_end = threading.Event(), threading.Event()
        self._copy = shutil.copyfile
        monkeypatch.setattr(shutil, "copyfile", self._wait_and_copy)

    def _wait_and_copy(self, source: Path, target: Path) -> None:
        self.began.set()
        assert self.may_end.wait(WITHIN_S)
        self._copy(source, target)


def synced(world: World, run_id: str, lines: int) -> None:
    """A run whose log was synced."""
    world.run(run_id)
    path = world.home.run(run_id) / "outputs" / "output.log"
    path.parent.mkdir(parents=True)
    path.write_text("".join(f"line {number}.\n" for number in range(lines)))


def test_while_a_long_log_is_copied_it_can_be_read_and_keys_answer(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced(world, "demo-aaaaaa", 500)
    disk, host = SlowDisk(monkeypatch), Host(monkeypatch, "echo new line; exec sleep 1000")

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        await pilot.press("l")
        await until(pilot, disk.began.is_set)
        await shows(pilot, "line 499.")
        await pilot.press("l", "home")
        await shows(pilot, "line 0.")
        assert host.asked == 0
        disk.may_end.set()
        await until(pilot, lambda: host.asked == 1 and follower_of(pilot).is_started)
        await until(pilot, lambda: log_of(pilot) == follower_of(pilot).path)
        await shows(pilot, "line 0.")
        await pilot.press("G")
        await shows(pilot, "new line", "line 499.", "following")

    drive(world.board(), use)
    assert host.asked == 1


def test_who_leaves_while_a_log_is_copied_starts_nothing_and_leaves_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced(world, "demo-aaaaaa", 3)
    disk, host = SlowDisk(monkeypatch), Host(monkeypatch, "exec sleep 1000")
    folder = world.home.state / "dashboard" / "logs"

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        await pilot.press("l")
        await until(pilot, disk.began.is_set)
        left = follower_of(pilot)
        await pilot.press("1")
        disk.may_end.set()
        await until(pilot, lambda: left.has_ended)
        assert (host.asked, [*folder.iterdir()]) == (0, [])
        await pilot.press("l")
        await until(pilot, lambda: follower_of(pilot).is_started)
        assert follower_of(pilot).path.read_text().startswith("line 0.")

    drive(world.board(), use)
