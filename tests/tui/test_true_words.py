"""What the dashboard says agrees with its numbers, and with what it does: one of a thing, a part of some, a key that helps."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console
from textual.pilot import Pilot

from armada.compare.report.samples import Sample
from armada.store import runs
from armada.tui.operations import Answer
from armada.tui.scales import scale_of
from armada.tui.screens.compare_samples import MOST_STEPS, beside
from armada.tui.screens.hosts import HostsScreen
from armada.tui.symbols import UNICODE
from armada.tui.widgets.parallel import NARROWEST, Parallel
from tests.tui.conftest import World, drive, lacks, said, shows, until
from tests.tui.test_dialogs import commands
from tests.tui.test_launch_screen import EXPERIMENT, file, opened

__all__ = ["file"]


def test_of_marked_runs_only_those_that_were_archived_are_said_to_be(world: World) -> None:
    for number in range(3):
        world.run(f"done-{number}aaaaa", state="succeeded")
    for number in range(2):
        world.run(f"busy-{number}bbbbb")

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "done-0aaaaa", "busy-1bbbbb")
        await pilot.press("a", "z")
        await until(pilot, lambda: "archive 3 runs done" in said(pilot))
        assert "archive: 2 runs of 5 have not ended and stay in lists" in said(pilot)
        assert runs.find(world.database, "done-0aaaaa").is_archived

    drive(world.board(), use)


@pytest.mark.parametrize(("width", "words"), [(6, ""), (5, " · 1 of 5 settings does"), (3, " · 3 of 5 settings do")])
def test_settings_that_do_not_fit_are_counted(width: int, words: str) -> None:
    parallel = Parallel(UNICODE)
    parallel.axes = tuple(scale_of(f"axis {number}", [1, 2]) for number in range(6))
    assert parallel.left_out(width * NARROWEST) == (f"{words} not fit" if words else "")


@pytest.mark.parametrize(("more", "words"), [(1, "1 earlier step"), (2, "2 earlier steps")])
def test_steps_that_are_not_shown_are_counted(more: int, words: str) -> None:
    history = {"why?": {step: Sample(step, "why?", "", "so") for step in range(MOST_STEPS + more)}}
    table = beside(["one", "two"], [history, history], 0, UNICODE, {"dim": "dim", "strong": "bold"})
    out = io.StringIO()
    Console(file=out, width=80).print(table)
    lines = [line.strip() for line in out.getvalue().splitlines()]
    assert words in lines
    assert lines[lines.index(words) + 1].split()[0] == str(more), "the oldest that is shown follows"
    assert lines[-1].split()[0] == str(MOST_STEPS + more - 1)


def test_one_host_that_does_not_fit_is_one_host(world: World) -> None:
    world.hosts(**{f"box{number}": {"ssh": f"root@192.0.2.{number}"} for number in range(1, 8)})
    for number in range(1, 8):
        world.run(f"r{number}-aaaaaa", host=f"box{number}")

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "r1-aaaaaa")
        await pilot.press("4")
        await shows(pilot, " 1 more host ")

    drive(world.board(), use, (140, 20))


def test_one_row_and_one_cell_are_one(world: World, file: Path) -> None:
    Path("rows.jsonl").write_text('{"text": "one"}\n')

    async def use(pilot: Pilot[None]) -> None:
        await opened(pilot)
        await pilot.press("v")
        await shows(pilot, " 1 row ")
        await pilot.press("escape", "ctrl+r")
        await until(pilot, lambda: "plan: disabled, because this dashboard was started with" in said(pilot))
        file.write_text(EXPERIMENT + "sweep: {grid: {retries: [1]}}\n")
        await shows(pilot, "a sweep of 1 cell")
        await pilot.press("v")
        await shows(pilot, " 1 cell ")

    drive(world.board(read_only=True), use)


def test_a_key_that_is_pinned_already_is_not_offered_to_be_pinned(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = commands(world, monkeypatch)
    world.hosts(box={"ssh": "root@192.0.2.1"})
    key = {"alias": "armada-box", "algorithm": "ssh-ed25519", "fingerprint": "SHA256:abc", "machine": "box"}
    answer = Answer(0, json.dumps({"ssh": "root@192.0.2.1:22", "offered": [key], "pinned_before": [key]}), "")

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        await pilot.press("3")
        await shows(pilot, "– local")
        view = pilot.app.screen
        assert isinstance(view, HostsScreen)
        view.compare("box", answer)
        await shows(pilot, "box shows the key that is pinned", "y check it", "Nothing is to be pinned")
        await pilot.press("y")
        await lacks(pilot, "shows the key that is pinned")
        assert started == [["hosts", "check", "box"]]

    drive(world.board(), use)
