"""Looking at the daemon: it keeps none from starting, and a healthy one is never called stale, whatever the clocks do."""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import multiprocessing
import os
import signal
import time
from collections.abc import Iterator
from multiprocessing.synchronize import Event

import pytest

from armada import __version__
from armada.cli.daemon import _sentence
from armada.daemon import instance, status
from armada.errors import Conflict
from armada.foundation import process_identity
from armada.paths import HomePaths
from tests import moments
from tests.conftest import Armada, eventually
from tests.daemon.conftest import condition

STARTS = 500 * moments.times(4)
YEAR_S = 365 * 86_400.0


def _look(home: HomePaths, begun: Event) -> None:
    begun.set()
    while True:
        instance.is_held(home)


@contextlib.contextmanager
def looking(home: HomePaths, count: int) -> Iterator[None]:
    """So many processes that do nothing but look at the lock."""
    home.daemon.mkdir(parents=True, exist_ok=True)
    context = multiprocessing.get_context("spawn")
    begun = [context.Event() for _ in range(count)]
    lookers = [context.Process(target=_look, args=(home, each)) for each in begun]
    for looker in lookers:
        looker.start()
    try:
        for each in begun:
            each.wait()
        yield
    finally:
        for looker in lookers:
            looker.kill()
            looker.join()


@pytest.mark.fault("processes that look at the daemon's lock all the time", "every daemon starts all the same")
def test_who_looks_keeps_no_daemon_from_starting(home: HomePaths) -> None:
    with looking(home, 2):
        for _ in range(STARTS):
            with instance.only_instance(home):
                assert instance.is_held(home)
                with pytest.raises(Conflict, match=f"process {os.getpid()} is"), instance.only_instance(home):
                    pass


def test_a_starter_waits_for_who_only_looks(home: HomePaths) -> None:
    home.daemon.mkdir(parents=True)
    tries: list[int] = []
    with instance.lock_file(home).open("w") as look, pytest.MonkeyPatch.context() as patch:
        fcntl.flock(look, fcntl.LOCK_SH)

        def pause(_: float) -> None:
            tries.append(1)
            if len(tries) == 3:
                look.close()

        patch.setattr("armada.daemon.instance.time.sleep", pause)
        with instance.only_instance(home):
            assert instance.is_held(home)
    assert len(tries) == 3


def test_a_daemon_started_beside_two_who_look_runs(armada: Armada, home: HomePaths) -> None:
    with looking(home, 2):
        for _ in range(moments.times(3)):
            started = armada.run("daemon", "start", "--auto")
            assert started.returncode == 0, started.stderr
            eventually(lambda: instance.holder(home))
            assert armada.run("daemon", "stop").returncode == 0


def test_of_daemons_started_at_once_one_was_started_and_the_others_were_running_already(
    armada: Armada, home: HomePaths
) -> None:
    starts = [armada.start("daemon", "start") for _ in range(3)]
    said = [each.communicate()[0] for each in starts]
    assert {each.returncode for each in starts} == {0}
    pid = condition(armada)["pid"]
    assert sorted(said) == [
        *2 * [f"the daemon is already running (process {pid})\n"],
        f"the daemon is running (process {pid})\n",
    ]


def told(home: HomePaths, **more: object) -> status.Status:
    """What a daemon that is this process would have written now."""
    me = process_identity.current()
    now = time.time()
    written = status.Status(me.pid, me.start_time, me.boot_id, __version__, False, now - 60, now, {}, ())
    return dataclasses.replace(written, tick_monotonic=time.monotonic(), **more)  # type: ignore[arg-type]


@pytest.mark.fault(
    "the clock set a year ahead or back beside a daemon", "its age is right, and nobody is told to kill it"
)
@pytest.mark.parametrize("step_s", [-YEAR_S, -1.0, 1.0, YEAR_S])
def test_a_clock_that_steps_makes_no_daemon_stale(home: HomePaths, step_s: float) -> None:
    with instance.only_instance(home):
        seen = status.HostStatus("ok", time.time() + step_s, None, None)
        status.write(home, told(home, tick_at=time.time() + step_s, hosts={"box": seen}))
        judged = status.judge(home)
        assert (judged.condition, judged.is_certain) == ("fresh", True)
        assert judged.age_s is not None
        assert judged.age_s < status.FRESH_S
        assert "kill" not in _sentence(judged)
        assert status.seen_hosts(home) == {"box"}


def test_a_host_seen_before_the_clock_was_set_is_looked_at_again(home: HomePaths) -> None:
    with instance.only_instance(home):
        seen = status.HostStatus("ok", time.time() + 3600.0, None, None)  # before the clock was set back by an hour
        status.write(home, told(home, hosts={"box": seen}))
        assert status.seen_hosts(home) == frozenset()


def test_a_tick_between_the_question_and_the_look_is_no_negative_age(home: HomePaths) -> None:
    """The audit's case: the status is newer than the time that was asked for before it was read."""
    with instance.only_instance(home):
        asked = time.monotonic()
        status.write(home, told(home))
        reads: list[float] = []

        def clock() -> float:
            reads.append(time.monotonic())
            return reads[-1]

        assert status.judge(home, monotonic=clock).condition == "fresh"
        assert reads
        assert min(reads) > asked


@pytest.mark.parametrize("step_s", [-YEAR_S, YEAR_S])
def test_a_daemon_of_an_earlier_release_is_believed_once_it_ticks(home: HomePaths, step_s: float) -> None:
    """Its status has the wall clock's time alone."""
    with instance.only_instance(home):
        old = dataclasses.replace(told(home), tick_monotonic=None, tick_at=time.time() + step_s)
        status.write(home, old)
        assert status.judge(home).condition == "stale"

        def tick(_: float) -> None:
            status.write(home, dataclasses.replace(old, tick_at=old.tick_at + 1))

        assert status.judge_twice(home, pause=tick).condition == "fresh"


def test_a_daemon_that_does_not_tick_while_it_is_watched_is_stale(home: HomePaths) -> None:
    with instance.only_instance(home):
        old = dataclasses.replace(told(home), tick_monotonic=None, tick_at=time.time() + YEAR_S)
        status.write(home, old)
        waits: list[float] = []
        judged = status.judge_twice(home, pause=waits.append)
        assert judged.condition == "stale"
        assert sum(waits) >= status.FRESH_S
        assert "did not tick within 15 s; it is safe to run kill -9" in _sentence(judged)


def test_a_daemon_that_was_suspended_and_goes_on_is_fresh_again(armada: Armada, home: HomePaths) -> None:
    armada.run("daemon", "start")
    pid = condition(armada)["pid"]
    os.kill(pid, signal.SIGSTOP)
    try:
        first = status.judge(home, monotonic=lambda: time.monotonic() + 60)
        assert first.condition == "stale"
        assert f"kill -9 {pid}" in _sentence(first)
    finally:
        os.kill(pid, signal.SIGCONT)
    eventually(lambda: armada.run("daemon", "status").returncode == 0)
