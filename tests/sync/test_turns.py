"""Runs of one host take turns, and what happens to one meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from armada.foundation.progress import NullProgress
from armada.rpc.client import Call
from armada.store import checkpoints, run_sync
from armada.sync.runs.sync_host import sync_host
from tests.answers import outbox
from tests.sync.conftest import Place


class Order(NullProgress):
    """Which checkpoints came, in their order."""

    def __init__(self) -> None:
        self.came: list[str] = []

    def stage(self, name: str, message: str) -> None:
        place = Path(message.partition(" (")[0])
        self.came.append(f"{place.parent.parent.name} {place.name.removeprefix('checkpoint-')}")


def test_runs_of_one_host_take_turns_a_checkpoint_at_a_time(place: Place) -> None:
    place.create()
    for step in (1, 2, 3):
        place.save(step, {"model": b"%d" % step})
    bad = place.save(4, {"model": b"4"})
    (place.remote / "outbox" / bad / "model").write_bytes(b"?")
    place.run_id = "tune-2"
    place.create()
    for step in (10, 20):
        place.save(step, {"model": b"%d" % step})
    place.end()
    order = Order()
    first, second = sync_host(place.context, ["tune-1", "tune-2"], progress=order)
    assert order.came == ["tune-2 20", "tune-1 3", "tune-2 10", "tune-1 2", "tune-1 1"]
    assert (len(first.published), len(second.published), second.final) == (3, 2, True)
    assert (first.pending, [trouble.step for trouble in first.troubles]) == ((bad,), [4])
    records = run_sync.every(place.database)
    assert (records["tune-1"].failures, records["tune-2"].final_done) == (1, True)
    assert records["tune-1"].failing_since is not None  # what came after it does not make it good
    assert "spec.json" in first.outputs.fetched


class Meanwhile(Order):
    """Something happens while the first checkpoint comes."""

    def __init__(self, act: Callable[[], object]) -> None:
        super().__init__()
        self._act = act

    def stage(self, name: str, message: str) -> None:
        super().stage(name, message)
        if len(self.came) == 1:
            self._act()


def test_a_run_that_saves_more_and_ends_while_it_is_synced_is_not_called_failing(place: Place) -> None:
    place.create()
    place.save(1, {"model": b"1"})

    def go_on() -> None:
        digest = place.save(2, {"model": b"2"})
        entry = {"digest": digest, "step": 2, "size_bytes": 1, "file_count": 1, "created_at": time.time()}
        (first,) = checkpoints.of_run(place.database, place.run_id)
        known = {name: getattr(first, name) for name in entry}
        checkpoints.record_outbox(place.database, place.run_id, outbox([known, entry]))  # as the daemon's watcher does
        place.end()

    outcome = place.sync(progress=Meanwhile(go_on))
    assert (len(outcome.published), len(outcome.pending), outcome.final) == (1, 1, False)
    record = run_sync.find(place.database, place.run_id)
    assert (record.failures, record.failing_since) == (0, None)
    assert place.sync().final


def test_what_a_run_saves_right_before_its_end_comes_although_its_host_was_asked_for_both_at_once(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.create()
    original = place.session.call_all

    def crossing(questions: Sequence[Call[Any]]) -> list[Any]:
        answers = original(questions)
        place.save(1, {"model": b"1"})  # after the listing was made, before the state was read
        place.end()
        return answers

    monkeypatch.setattr(place.session, "call_all", crossing)
    outcome = place.sync()
    assert (len(outcome.published), outcome.saw_end, outcome.final) == (1, True, True)


def test_a_run_that_becomes_due_meanwhile_does_not_wait_for_all_that_another_has_to_bring(place: Place) -> None:
    place.create()
    for step in (1, 2, 3):
        place.save(step, {"model": b"%d" % step})
    place.run_id = "tune-2"
    place.create()
    order = Order()
    clock = [time.time()]

    def news() -> list[str]:
        clock[0] += 10.0
        if len(order.came) == 1:
            place.save(10, {"model": b"10"})
        if len(order.came) == 3:
            place.save(20, {"model": b"20"})
        return ["tune-2"] if len(order.came) in (1, 3) else []

    sync_host(place.context, ["tune-1"], progress=order, now=lambda: clock[0], news=news)
    assert order.came == ["tune-1 3", "tune-1 2", "tune-2 10", "tune-1 1", "tune-2 20"]


def test_trouble_with_one_run_of_a_host_does_not_keep_the_others(place: Place) -> None:
    place.create()
    place.run_id = "tune-2"
    place.create()
    place.save(1, {"model": b"1"})
    place.home.run("tune-1").mkdir(parents=True)
    (place.home.run("tune-1") / "checkpoints").write_text("a file where a folder should be")
    first, second = sync_host(place.context, ["tune-1", "tune-2"])
    assert [trouble.cause for trouble in first.troubles] == ["other"]
    assert [path.name for path in second.published] == ["checkpoint-1"]
