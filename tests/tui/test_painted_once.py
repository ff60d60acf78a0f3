"""A new screen is painted when what it shows has been read, not twice; one whose data take long is painted without them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from textual.pilot import Pilot

from armada.tui.app import Dashboard
from armada.tui.screens import view
from armada.tui.screens.run import RunScreen
from armada.tui.watcher import Watcher
from tests.tui.conftest import World, drive, shows, until
from tests.tui.test_left_screens import board_of, full, on_top

__all__ = ["full"]


class Painted:
    """Whether the details of the run had come, at each frame of its screen."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.with_details: list[bool] = []
        display = Dashboard._display  # noqa: SLF001  # Textual has no public name for it

        def note(board: Dashboard, screen: Any, renderable: Any) -> None:
            if isinstance(screen, RunScreen) and renderable is not None:
                self.with_details.append(screen.run_id in board.snapshot.details)
            display(board, screen, renderable)

        monkeypatch.setattr(Dashboard, "_display", note)


class MayRead(threading.Event):
    """While it is not set, no reading of the store ends."""

    def __init__(self) -> None:
        super().__init__()
        self.waits = threading.Event()

    async def stop(self, pilot: Pilot[None]) -> None:
        """Let no reading end from now on."""
        self.waits.clear()
        self.clear()
        board_of(pilot)._watcher._wake.set()  # noqa: SLF001
        await until(pilot, self.waits.is_set)
        await pilot.pause()  # what was told before is taken


@pytest.fixture
def may_read(monkeypatch: pytest.MonkeyPatch) -> Iterator[MayRead]:
    event, read = MayRead(), Watcher._read_wanted  # noqa: SLF001

    def wait(self: Watcher, *given: Any) -> Any:
        if not event.is_set():
            event.waits.set()
        event.wait()
        return read(self, *given)

    monkeypatch.setattr(Watcher, "_read_wanted", wait)
    event.set()
    yield event
    event.set()


async def all_read(pilot: Pilot[None]) -> None:
    await shows(pilot, "one-aaaaaa", "two-bbbbbb")
    await until(pilot, lambda: board_of(pilot).snapshot.taken_at)  # before, only the runs in sight were read


async def open_run(pilot: Pilot[None]) -> None:
    await pilot.press("enter")
    await until(pilot, lambda: isinstance(on_top(pilot), RunScreen) and on_top(pilot).is_mounted)


@pytest.mark.parametrize("is_slow", [False, True])
def test_the_first_frame_has_what_was_read(
    full: World, may_read: MayRead, monkeypatch: pytest.MonkeyPatch, *, is_slow: bool
) -> None:
    monkeypatch.setattr(view, "HELD_S", 3600.0)
    painted = Painted(monkeypatch)

    async def use(pilot: Pilot[None]) -> None:
        await all_read(pilot)
        if is_slow:
            await may_read.stop(pilot)
        await open_run(pilot)
        if is_slow:
            await pilot.press("c", "f5", "o")  # each would paint something
            assert painted.with_details == []
            may_read.set()
        await until(pilot, lambda: painted.with_details)
        await shows(pilot, "checkpoints")
        assert all(painted.with_details)

    drive(full.board(), use)


def test_another_run_on_the_same_screen_is_painted_when_it_has_been_read(
    full: World, may_read: MayRead, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(view, "HELD_S", 3600.0)
    painted = Painted(monkeypatch)

    async def use(pilot: Pilot[None]) -> None:
        await all_read(pilot)
        await open_run(pilot)
        first = on_top(pilot)
        await until(pilot, lambda: painted.with_details)
        await pilot.press("escape", "down")
        await until(pilot, lambda: on_top(pilot).PLACE == "runs")
        painted.with_details.clear()
        await open_run(pilot)
        await until(pilot, lambda: painted.with_details)
        assert on_top(pilot) is first
        assert all(painted.with_details)
        await pilot.press("escape")
        await until(pilot, lambda: on_top(pilot).PLACE == "runs")
        painted.with_details.clear()
        await may_read.stop(pilot)
        await open_run(pilot)  # what is known of it is shown at once
        await until(pilot, lambda: painted.with_details)
        may_read.set()

    drive(full.board(), use)


def test_a_screen_whose_data_take_long_is_painted_without_them(
    full: World, may_read: MayRead, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(view, "HELD_S", 0.01)
    painted = Painted(monkeypatch)

    async def use(pilot: Pilot[None]) -> None:
        await all_read(pilot)
        await may_read.stop(pilot)
        await open_run(pilot)
        await until(pilot, lambda: painted.with_details)
        assert not any(painted.with_details)
        may_read.set()
        await until(pilot, lambda: painted.with_details[-1])
        board_of(pilot).exit()

    drive(full.board(), use)
