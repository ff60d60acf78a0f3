"""A log that exists and cannot be read: the dashboard says so with the reason, and shows it as soon as it can."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from armada.store import runs
from armada.tui import logs
from armada.tui.log_file import LogFile
from armada.tui.rank_lines import RankLines
from tests.tui.conftest import World, drive, lacks, shows

REASON = "the log cannot be read: Permission denied"


class Refusal:
    """Refuses to open one file, as for a user who may not read it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
        self.is_on = True
        real = Path.open

        def opened(place: Path, *args: Any, **options: Any) -> Any:
            if self.is_on and place == path:
                raise PermissionError(13, "Permission denied", str(place))
            return real(place, *args, **options)

        monkeypatch.setattr(Path, "open", opened)


@pytest.mark.parametrize("key", ["", "enter", "l"])
def test_a_log_that_cannot_be_read_says_why_until_it_can(
    world: World, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusal = Refusal(monkeypatch, world.local_log("demo-aaaaaa", "hello there\n"))

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        if key:
            await pilot.press(key)
        await shows(pilot, REASON)
        await lacks(pilot, "following", "hello there")
        refusal.is_on = False
        world.losses("demo-aaaaaa", [2.0, 1.0])
        await shows(pilot, "hello there")
        await lacks(pilot, REASON)

    drive(world.board(), use)


def test_a_log_that_cannot_be_read_is_empty_and_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "output.log"
    path.write_text("[rank1]: one\n[rank1]: two\n")
    refusal = Refusal(monkeypatch, path)
    for log in (LogFile(path), RankLines(path, 1)):
        assert (log.forward(0, 5), log.line_start(3)) == ([], 0)
        assert log.backward(0, 5) == 0
        assert log.trouble == "Permission denied"
    assert LogFile(path).number_of(14) is None
    refusal.is_on = False
    assert len(log.forward(0, 5)) == 2
    assert log.trouble == ""


def test_a_log_that_is_deleted_while_it_is_found_is_none(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.run("demo-aaaaaa")
    copy = world.home.run("demo-aaaaaa") / "outputs" / "output.log"
    copy.parent.mkdir(parents=True)
    copy.write_text("hello\n")
    run = runs.find(world.database, "demo-aaaaaa")
    real = Path.stat

    def stat(place: Path, **options: Any) -> os.stat_result:
        found = real(place, **options)
        if place == copy:
            place.unlink()
        return found

    monkeypatch.setattr(Path, "stat", stat)
    assert logs.at_home(world.home, run, local=False) == copy
    assert logs.at_home(world.home, run, local=False) is None


def test_a_log_in_a_folder_that_may_not_be_entered_is_found_and_says_why(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = world.local_log("demo-aaaaaa", "hello there\n")
    real = Path.stat

    def stat(place: Path, **options: Any) -> os.stat_result:
        if place == path:
            raise PermissionError(13, "Permission denied", str(place))
        return real(place, **options)

    monkeypatch.setattr(Path, "stat", stat)
    Refusal(monkeypatch, path)

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa", REASON)
        await pilot.press("l")
        await shows(pilot, REASON, "cannot be read")

    drive(world.board(), use)
