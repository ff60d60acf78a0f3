"""How old a log is that is a copy at home, and why no newer one comes."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest
from textual.pilot import Pilot

from armada.store import run_sync, runs
from armada.tui import logs
from tests.tui.conftest import World, drive, lacks, shows


def copied(world: World, run_id: str, *, ago_s: float) -> Path:
    """A copy of its log at home, brought so long ago."""
    log = world.home.run(run_id) / "outputs" / "output.log"
    log.parent.mkdir(parents=True)
    log.write_text("step 1\nstep 2\n")
    moment = time.time() - ago_s
    os.utime(log, (moment, moment))
    return log


def test_a_log_that_is_a_copy_says_how_old_it_is_and_since_when_its_host_is_silent(world: World) -> None:
    world.run("arc-aaaaaa")
    copied(world, "arc-aaaaaa", ago_s=600)
    runs.mark_unreachable(world.database, ["arc-aaaaaa"], "no route to host")

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "step 2", "copy of ")
        await pilot.press("l")
        await shows(pilot, "step 2", "10 m ago; box is unreachable since")
        await pilot.press("h")
        await lacks(pilot, "copy at home")

    drive(world.board(read_only=True), use)


def test_the_copy_of_a_log_is_as_old_as_the_last_sync_that_found_nothing_newer(world: World) -> None:
    world.run("arc-aaaaaa")
    copied(world, "arc-aaaaaa", ago_s=7200)
    run_sync.succeeded(world.database, "arc-aaaaaa", began=time.time() - 185, next_due_at=None, final_of=None)

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "arc-aaaaaa", "step 2")
        await pilot.press("l")
        await shows(pilot, "copy at home as of", ", 3 m ")

    drive(world.board(read_only=True), use)


def test_a_whole_log_of_an_ended_run_has_no_age(world: World) -> None:
    world.run("arc-aaaaaa", state="succeeded")
    copied(world, "arc-aaaaaa", ago_s=7200)
    run_sync.succeeded(world.database, "arc-aaaaaa", began=time.time() - 185, next_due_at=None, final_of=1)

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "arc-aaaaaa", "step 2")
        await pilot.press("l")
        assert "copy at home" not in await shows(pilot, "at the end", "step 2")

    drive(world.board(), use)


def test_a_log_that_nobody_can_follow_says_so_beside_its_age(world: World) -> None:
    world.run("arc-aaaaaa", host="former")
    copied(world, "arc-aaaaaa", ago_s=600)

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "arc-aaaaaa", "step 2")
        await pilot.press("l")
        await shows(pilot, "step 2", "copy at home as of", "10 m ago; no host is called 'former'")

    drive(world.board(), use, (200, 40))


def test_a_log_whose_follower_broke_is_not_followed_and_says_where_all_of_its_output_is(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.run("arc-aaaaaa")
    copied(world, "arc-aaaaaa", ago_s=600)
    bug = "Traceback\nValueError: no\narmada: this is a bug in armada (ValueError); please report the lines above"
    fails = [sys.executable, "-c", f"import sys; sys.exit({bug!r})"]
    monkeypatch.setattr(logs, "command", lambda *_: fails)
    file = logs.fetched(world.home, "arc-aaaaaa").with_suffix(".err")

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "arc-aaaaaa", "step 2")
        await pilot.press("l")
        seen = await shows(pilot, "this is a bug in armada", "at the end", "step 2")
        assert "following" not in seen
        assert "the lines above" not in seen
        words = "".join(line.strip() for line in seen.splitlines()).replace(" ", "")
        assert f"pleasereport{file}" in words
        assert "ValueError: no" in file.read_text()

    drive(world.board(), use, (80, 24))


def test_a_log_of_which_nothing_came_has_no_age_and_says_once_why(world: World) -> None:
    world.run("arc-aaaaaa", host="former")

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "arc-aaaaaa")
        await pilot.press("l")
        seen = await shows(pilot, "armada logs: no host is called 'former'")
        assert "copy at home" not in seen

    drive(world.board(), use, (200, 40))


def test_every_page_of_a_run_has_its_name_in_sight_on_a_small_terminal(world: World) -> None:
    world.run("a-very-long-name-of-a-run-aaaaaa")

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "a-very-long")
        await pilot.press("enter")
        await shows(pilot, "overview  charts  log  checkpoints  samples  events  config")

    drive(world.board(), use, (80, 24))
