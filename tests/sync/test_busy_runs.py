"""A run whose checkpoints another command works on: the other runs of its host do not wait for that."""

from __future__ import annotations

import argparse
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from armada.cli import remove
from armada.cli.context import Context
from armada.cli.main import run
from armada.cli.progress import Reporter
from armada.cli.several import Patience
from armada.foundation.locks import FileLock
from armada.foundation.progress import NullProgress
from armada.store import checkpoints, run_sync, runs
from armada.sync.runs.sync_host import BUSY, sync_host
from armada.sync.schedule.due import due
from tests.sync.conftest import Place

AT_LAST_S = 60.0
"""When the lock is freed all the same: a sync that waits for it fails this test, and does not hang."""


@contextmanager
def locked(folder: Path) -> Iterator[Callable[[], None]]:
    """Hold a run's lock, as a pull does; gives what frees it."""
    with FileLock(folder / ".lock") as lock:
        lock.acquire()
        timer = threading.Timer(AT_LAST_S, lock.release)
        timer.daemon = True
        timer.start()
        try:
            yield lock.release
        finally:
            timer.cancel()
            timer.join()


class Watching(NullProgress):
    """Which runs had checkpoints come, in their order, and who was waited for; something happens at a word."""

    def __init__(self, word: str = "", act: Callable[[], None] = lambda: None) -> None:
        self.told: list[str] = []
        self._word = word
        self._act = act

    def stage(self, name: str, message: str) -> None:
        self.told.append("waiting" if name == "waiting" else Path(message.partition(" (")[0]).parent.parent.name)
        if self.told[-1] == self._word:
            self._act()


@pytest.fixture
def two(place: Place) -> Place:
    """Two runs of one host, each with a checkpoint on it, and each with its folders here."""
    for place.run_id in ("tune-2", "tune-1"):
        place.create()
        place.sync()
        place.save(1, {"model": place.run_id.encode()})
    return place


def home_steps(place: Place, run_id: str) -> list[int]:
    return [c.step for c in checkpoints.of_run(place.database, run_id) if c.home_path is not None]


def test_the_daemon_puts_off_a_run_that_a_pull_works_on_and_syncs_the_others(
    two: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    two.end()
    with locked(two.published):
        outcomes = {each.run_id: each for each in sync_host(two.context, ["tune-1", "tune-2"], news=list)}
        assert (home_steps(two, "tune-1"), home_steps(two, "tune-2")) == ([], [1])
        assert (outcomes["tune-1"].busy, outcomes["tune-1"].final, outcomes["tune-2"].busy) == (BUSY, False, None)
        record = run_sync.find(two.database, "tune-1")
        assert (record.reason, record.failures, record.failing_since) == (BUSY, 0, None)
        now = time.time()
        assert "tune-1" not in [each.run_id for each in due(two.database, now)]
        assert "tune-1" in [each.run_id for each in due(two.database, now + run_sync.PUT_OFF_S)]
        run(["sync", "ls"])
        assert "waits: another armada command works on its checkpoints" in capsys.readouterr().out
    sync_host(two.context, ["tune-1"], news=list)
    assert (home_steps(two, "tune-1"), run_sync.find(two.database, "tune-1").reason) == ([1], None)


def test_two_runs_that_pulls_work_on_are_both_put_off(two: Place) -> None:
    with locked(two.published), locked(two.home.checkpoints("tune-2")):
        outcomes = sync_host(two.context, ["tune-1", "tune-2"], news=list)
    assert [each.busy for each in outcomes] == [BUSY, BUSY]


def test_a_run_that_a_pull_works_on_comes_last_and_is_not_put_off_if_that_has_ended(two: Place) -> None:
    with locked(two.published) as free:
        progress = Watching("tune-2", free)
        sync_host(two.context, ["tune-1", "tune-2"], news=list, progress=progress)
    assert progress.told == ["tune-2", "tune-1"]
    assert run_sync.find(two.database, "tune-1").reason is None


def test_a_failure_that_was_recorded_before_is_still_told_of_a_run_that_is_put_off(two: Place) -> None:
    run_sync.failed(two.database, "tune-1", now=1.0, reason="no route", next_due_at=2.0)
    with locked(two.published):
        sync_host(two.context, ["tune-1"], news=list)
    record = run_sync.find(two.database, "tune-1")
    assert (record.reason, record.failures, record.failing_since) == ("no route", 1, 1.0)


def test_a_person_who_syncs_waits_for_the_pull_after_the_others_and_is_told(two: Place) -> None:
    with locked(two.published) as free:
        progress = Watching("waiting", free)
        sync_host(two.context, ["tune-1", "tune-2"], progress=progress)
    assert progress.told == ["tune-2", "waiting", "tune-1"]


def test_a_person_who_pulls_waits_and_is_told(two: Place) -> None:
    with locked(two.published) as free:
        progress = Watching("waiting", free)
        two.sync(progress=progress)
    assert progress.told == ["waiting", "tune-1"]


@pytest.fixture
def of_another_home(two: Place) -> argparse.Namespace:
    """`tune-1` was launched by another home; the options of `armada rm --force`."""
    spec = runs.spec(two.database, "tune-1")
    runs.set_spec(two.database, "tune-1", {**spec, "home": {"id": "a" * 32, "label": "desk", "path": "/home/desk"}})
    two.end()
    return argparse.Namespace(dry_run=False, force=True, without_host=False, other_home=False, json=False)


def removed(place: Place, options: argparse.Namespace) -> bool:
    context = Context()
    remove.remove_one(context, options, Reporter(), Patience(0.0), runs.find(context.database, "tune-1"))
    return not runs.is_known(place.database, "tune-1")


def test_rm_asks_its_question_without_the_lock(
    two: Place, of_another_home: argparse.Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    free: list[bool] = []

    def answer(*_: object) -> None:
        with FileLock(two.published / ".lock") as lock:
            free.append(lock.try_acquire())

    monkeypatch.setattr(remove, "ask_owner", answer)
    assert removed(two, of_another_home)
    assert free == [True]


def test_rm_asks_again_if_it_would_lose_something_else_than_when_it_asked(
    two: Place, of_another_home: argparse.Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def answer(*_: object) -> None:
        asked.append(len(checkpoints.of_run(two.database, "tune-1")))
        if len(asked) == 1:
            two.save(2, {"model": b"2"})

    monkeypatch.setattr(remove, "ask_owner", answer)
    assert removed(two, of_another_home)
    assert asked == [1, 2]
