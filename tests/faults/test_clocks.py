"""A daemon whose clock jumps, or whose machine slept for a day."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from armada.daemon.service import Clock, Daemon
from armada.store import run_sync, runs
from armada.sync.context import HostContext
from armada.sync.runs.sync_host import sync_host
from armada.verdicts.states import Verdict
from tests.conftest import eventually
from tests.sync.conftest import Place

DAY_S = 86_400.0


class Ticking:
    """A daemon ticked by the test, with a wall clock that the test sets; its watchers and syncs are the real ones."""

    def __init__(self, place: Place) -> None:
        self.ahead_s = 0.0
        self.synced: list[str] = []
        self.daemon = Daemon(place.home, clock=Clock(self.now, time.monotonic), sync_host=self._sync_host)
        self._place = place

    def now(self) -> float:
        return time.time() + self.ahead_s

    def tick(self) -> None:
        self.daemon.tick(self._place.database)

    def until(self, so: Callable[[], Any]) -> None:
        def look() -> Any:
            self.tick()
            return so()

        eventually(look)

    def _sync_host(self, context: HostContext, run_ids: Sequence[str], /, **options: Any) -> Any:
        self.synced += run_ids
        return sync_host(context, run_ids, now=self.now, **options)


@pytest.fixture
def ticking(place: Place) -> Iterator[Ticking]:
    place.home.daemon.mkdir()
    place.create(every="1h")
    runs.record(place.database, place.run_id, Verdict("running", None, None, 1, 1), observed_at=time.time())
    made = Ticking(place)
    yield made
    made.daemon.close()


@pytest.mark.fault(
    "clock set a day back, or a day ahead",
    "nothing waits for the clock: the next checkpoint comes home at once, a failed sync is tried again",
)
@pytest.mark.parametrize("jump_s", [-DAY_S, DAY_S])
def test_a_clock_that_jumps_holds_nothing_up(place: Place, ticking: Ticking, jump_s: float) -> None:
    place.save(1, {"model": b"1"})
    ticking.until(lambda: place.home_steps() == [1])
    ticking.ahead_s = jump_s
    place.save(2, {"model": b"2"})
    ticking.until(lambda: place.home_steps() == [1, 2])
    run_sync.failed(
        place.database, place.run_id, now=ticking.now(), reason="a broken link", next_due_at=ticking.now() + 600
    )
    ticking.ahead_s = 0.0
    if jump_s < 0:  # set right again: what was to be tried in ten minutes is long due
        ticking.until(lambda: run_sync.find(place.database, place.run_id).failures == 0)
    else:  # what was to be tried in ten minutes seems to be a day away, and that is not believed
        place.save(3, {"model": b"3"})
        ticking.until(lambda: place.home_steps() == [1, 2, 3])


@pytest.mark.fault(
    "laptop asleep for a day",
    "looks at everything anew, and syncs once for all it missed",
)
def test_a_day_of_sleep_is_followed_by_one_sync(place: Place, ticking: Ticking) -> None:
    place.save(1, {"model": b"1"})
    ticking.until(lambda: run_sync.find(place.database, place.run_id).last_at is not None and not ticking.daemon.syncs)
    before = len(ticking.synced)
    looks = place.database.connection.execute("SELECT observed_at FROM hosts WHERE name = 'local'").fetchone()
    ticking.ahead_s = DAY_S  # the monotonic clock stood still
    place.save(2, {"model": b"2"})
    ticking.until(lambda: place.home_steps() == [1, 2] and not ticking.daemon.syncs)
    ticking.ahead_s += 10.0  # later ticks find nothing more to do
    for _ in range(5):
        ticking.ahead_s += 10.0
        ticking.tick()
        eventually(lambda: not ticking.daemon.syncs)
    assert len(ticking.synced) == before + 1
    seen = place.database.connection.execute("SELECT observed_at FROM hosts WHERE name = 'local'").fetchone()
    assert seen["observed_at"] > looks["observed_at"]
