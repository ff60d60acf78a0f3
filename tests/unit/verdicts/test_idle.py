"""When a host counts as idle, and what becomes of its stop command."""

from __future__ import annotations

import json

import pytest

from armada.verdicts.idle import BELIEVED_S, GAP_S, Idleness, Stopping, stopping_of, why_wait

LIMIT = 1800.0


def looks(*seen: tuple[float, str | None]) -> Idleness:
    found = Idleness()
    for now, busy in seen:
        found = found.seen(now, busy)
    return found


def idle_until(end: float) -> Idleness:
    return looks(*((float(now), None) for now in range(0, int(end) + 1, 60)))


def test_idleness_is_a_row_of_looks_without_a_gap() -> None:
    assert why_wait(idle_until(LIMIT), Stopping(), LIMIT, LIMIT) is None
    assert why_wait(idle_until(LIMIT - 60), Stopping(), LIMIT, LIMIT - 60) is not None
    assert looks((0, None), (60, "a run"), (120, None)).since == 120
    assert looks((0, None), (60, "a run")).since is None
    assert looks((0, None), (GAP_S + 1, None)).since == GAP_S + 1
    assert looks((1000, None), (400, None)).since == 400  # a clock that was set back proves nothing


@pytest.mark.parametrize("state", ["asked", "gone"])
def test_it_is_run_once_for_each_idleness(state: str) -> None:
    done = stopping_of({"state": state, "asked_at": LIMIT})
    assert why_wait(idle_until(9 * LIMIT), done, LIMIT, 9 * LIMIT) is not None


def test_a_try_that_failed_is_repeated_later_and_later() -> None:
    idle, now = idle_until(10 * LIMIT), 10 * LIMIT
    stopping, pauses = Stopping(), []
    for _ in range(9):
        stopping = stopping.failed("failed", "exited with 1", 0.0, now)
        pauses.append(stopping.next_try_at - now)
        assert why_wait(idle, stopping, LIMIT, now) is not None
        assert why_wait(idle, stopping, LIMIT, stopping.next_try_at) is None
    assert pauses[:3] == [60.0, 120.0, 240.0]
    assert pauses[-1] == 3600.0
    since = Idleness(since=now - 1e6 - LIMIT, seen_at=now - 1e6)
    assert why_wait(since, stopping, LIMIT, now - 1e6) is None  # the clock was set back: not put off for ever


def test_what_is_recorded_is_read_again_and_anything_else_is_nothing() -> None:
    stopped = Stopping("gone", 5.0, 0, 0.0, 7.0, "gone", ((1.0, 2.0),))
    assert stopping_of(json.loads(json.dumps(stopped.as_json()))) == stopped
    assert stopping_of(None) == stopping_of({}) == stopping_of({"newer": 1}) == Stopping()
    assert stopped.came_back(9.0) == Stopping(away=((1.0, 2.0), (7.0, 9.0)))
    assert stopped.came_back(3.0).away == ((1.0, 2.0),)
    assert stopped.begun_anew() == Stopping(away=((1.0, 2.0),))
    assert BELIEVED_S > 60
