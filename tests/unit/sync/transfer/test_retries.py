"""When a transfer whose link broke is begun again."""

from __future__ import annotations

import pytest

from armada.errors import AuthenticationFailed, HostKeyChanged, HostUnreachable, LinkLost, NotFound
from armada.sync.transfer.retries import Retries


class Clock:
    """Time as the test says; waiting takes none of it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 0.0
        self.waits: list[float] = []
        monkeypatch.setattr("armada.sync.transfer.retries.time.monotonic", lambda: self.now_s)
        monkeypatch.setattr("armada.sync.transfer.retries.time.sleep", self.waits.append)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


LOST = LinkLost("the transfer broke off", host="box")


def test_the_patience_counts_from_the_last_time_that_anything_came(clock: Clock) -> None:
    retries = Retries()
    for clock.now_s in (0.0, 6.0, 12.0, 18.0):
        retries.wait(LOST, patience_s=10.0, has_come=True)
    clock.now_s = 27.0
    retries.wait(LOST, patience_s=10.0, has_come=False)
    clock.now_s = 28.0
    with pytest.raises(LinkLost):
        retries.wait(LOST, patience_s=10.0, has_come=False)


def test_waits_grow_while_nothing_comes_and_begin_anew_once_something_did(clock: Clock) -> None:
    retries = Retries()
    for _ in range(8):
        retries.wait(LOST, patience_s=10.0, has_come=False)
    assert 0.1 <= clock.waits[0] <= 0.2
    assert 2.5 <= clock.waits[-1] <= 5.0
    retries.wait(LOST, patience_s=10.0, has_come=True)
    assert 0.1 <= clock.waits[-1] <= 0.2


def test_a_host_is_waited_for_only_where_it_has_answered_before(clock: Clock) -> None:
    away = HostUnreachable("no route to host", host="box")
    with pytest.raises(HostUnreachable):
        Retries().wait(away, patience_s=10.0, has_come=False)
    retries, told = Retries(), list[HostUnreachable]()
    retries.wait(LOST, patience_s=10.0, has_come=False, failed=told.append)
    retries.wait(away, patience_s=10.0, has_come=False, failed=told.append)
    assert told == [LOST, away]


@pytest.mark.parametrize(
    "error", [HostKeyChanged("k", host="box"), AuthenticationFailed("a", host="box"), NotFound("n")]
)
def test_what_waiting_does_not_mend_is_said_at_once(clock: Clock, error: Exception) -> None:
    retries = Retries()
    retries.wait(LOST, patience_s=10.0, has_come=True)
    with pytest.raises(type(error)):
        retries.wait(error, patience_s=10.0, has_come=True)


def test_without_patience_nothing_is_tried_again(clock: Clock) -> None:
    with pytest.raises(LinkLost):
        Retries().wait(LOST, patience_s=0.0, has_come=True)
    assert clock.waits == []
