"""The reader waits while nobody takes what it told: a shell may have the terminal for days."""

from __future__ import annotations

import threading

from armada.tui.curves import CurveUpdate
from armada.tui.snapshot import Snapshot
from armada.tui.watcher import Subscription, Watcher
from tests.conftest import eventually
from tests.tui.conftest import World


def test_nothing_piles_up_while_nobody_takes_what_was_read(world: World) -> None:
    world.run("demo-aaaaaa")
    told: list[Snapshot] = []

    def take(snapshot: Snapshot, _: tuple[CurveUpdate, ...]) -> bool:
        told.append(snapshot)
        return True

    class Taken(threading.Event):
        is_awaited = False

        def wait(self, timeout: float | None = None) -> bool:
            self.is_awaited = not self.is_set()
            return super().wait(timeout)

    watcher = Watcher(world.home, take)
    watcher._taken = taken = Taken()  # noqa: SLF001
    taken.set()
    watcher.start()
    try:
        eventually(lambda: told, "the first one")
        world.run("more-bbbbbb")
        watcher.want(Subscription(telemetry=True), "a screen")
        eventually(lambda: taken.is_awaited, "it waits")
        assert len(told) == 1
        watcher.taken()
        eventually(lambda: len(told) == 2, "the next one")
        assert len(told[1].runs) == 2
    finally:
        watcher.stop()


def test_what_is_asked_for_between_two_looks_is_read(world: World) -> None:
    world.run("demo-aaaaaa")
    told: list[Snapshot] = []
    watcher = Watcher(world.home, lambda snapshot, _: told.append(snapshot))

    class Wake(threading.Event):
        looks = 0

        def is_set(self) -> bool:
            found = super().is_set()
            self.looks += not found
            if self.looks == 5 and not found:  # by then all that was there at first has been read
                watcher.want(Subscription(details=frozenset({"demo-aaaaaa"})), "a screen")  # a moment after the look
            return found

    watcher._wake = Wake()  # noqa: SLF001
    watcher.start()
    try:
        eventually(lambda: told and told[-1].details, "the details that were asked for")
    finally:
        watcher.stop()
