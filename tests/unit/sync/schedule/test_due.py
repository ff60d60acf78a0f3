from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from armada.config.sync import SyncSettings
from armada.store.run_sync import RunSync
from armada.sync.schedule.due import FIRST_BACKOFF_S, LONGEST_BACKOFF_S, Situation, backoff_s, why_due

NOON = dt.time(12, 0)
NIGHT = dt.time(23, 30)
WINDOW = SyncSettings(window="22:00-07:00")
NOW = 1_000_000.0


def due(
    *,
    ended: bool = False,
    new: bool = False,
    settings: SyncSettings | None = None,
    local: dt.time = NOON,
    **record: Any,
) -> str | None:
    return why_due(Situation(ended, new, RunSync("r", **record), settings or SyncSettings()), NOW, local)


@pytest.mark.parametrize(
    ("why", "facts"),
    [
        ("every 10m", {}),  # never synced
        ("every 10m", {"last_at": NOW - 601}),
        (None, {"last_at": NOW - 599}),
        ("checkpoint finished", {"last_at": NOW - 1, "new": True}),
        ("run ended", {"last_at": NOW - 6, "ended": True}),
        (None, {"last_at": NOW - 1, "ended": True}),
        ("run ended", {"last_at": NOW + 1000, "ended": True}),
        (None, {"last_at": NOW - 1, "ended": True, "final_done": True}),
        ("requested", {"last_at": NOW - 1, "requested_at": NOW}),
        ("requested", {"ended": True, "final_done": True, "requested_at": NOW}),
        (None, {"failures": 2, "next_due_at": NOW + 20, "new": True}),
        (None, {"failures": 2, "next_due_at": NOW + 20, "ended": True}),
        ("requested", {"failures": 2, "next_due_at": NOW + 20, "requested_at": NOW}),
        ("checkpoint finished", {"failures": 2, "next_due_at": NOW - 1, "new": True}),
        # Another command works on its checkpoints: tried again soon, and never failing.
        (None, {"reason": "a pull", "next_due_at": NOW + 30, "new": True}),
        (None, {"reason": "a pull", "next_due_at": NOW + 30, "ended": True}),
        (None, {"reason": "a pull", "next_due_at": NOW + 30, "requested_at": NOW}),
        ("checkpoint finished", {"reason": "a pull", "next_due_at": NOW - 1, "new": True}),
        ("checkpoint finished", {"reason": "a pull", "next_due_at": NOW + 86_400, "new": True}),
        # The window holds back what can wait, and nothing else.
        (None, {"settings": WINDOW, "new": True}),
        ("checkpoint finished", {"settings": WINDOW, "new": True, "local": NIGHT}),
        ("run ended", {"settings": WINDOW, "ended": True}),
        ("requested", {"settings": WINDOW, "requested_at": NOW}),
        # The laptop slept for a day: due, once; the clock was set back by a day: due all the same.
        ("every 10m", {"last_at": NOW - 86_400}),
        ("every 10m", {"last_at": NOW + 86_400}),
        ("checkpoint finished", {"failures": 1, "next_due_at": NOW + 86_400, "new": True}),
    ],
)
def test_a_run_is_due_when_the_table_says_so(why: str | None, facts: dict[str, Any]) -> None:
    assert due(**facts) == why


def test_back_off_grows_to_its_longest_and_is_spread() -> None:
    assert backoff_s(1, 1.0) == FIRST_BACKOFF_S
    assert backoff_s(100, 1.0) == LONGEST_BACKOFF_S
    assert backoff_s(1, 0.0) == FIRST_BACKOFF_S / 2
    assert [backoff_s(n, 1.0) for n in (1, 2, 3)] == [15.0, 30.0, 60.0]


@pytest.mark.parametrize(("hour", "is_open"), [(21, False), (22, True), (3, True), (7, False), (12, False)])
def test_a_window_reaches_over_midnight(hour: int, is_open: bool) -> None:
    assert WINDOW.open_at(dt.time(hour, 0)) is is_open


def test_rates_and_durations_are_read_as_written() -> None:
    settings = SyncSettings(every="1.5h", bwlimit="20M")
    assert (settings.every_s, settings.bytes_per_s) == (5400.0, 20_000_000.0)
    assert SyncSettings().bytes_per_s is None
