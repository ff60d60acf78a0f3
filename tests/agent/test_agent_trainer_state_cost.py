"""A Trainer's state is compared with what home has of it: only what is new, however long the training is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from armada_agent.metrics import past, trainer_state

from tests.agent.test_agent_trainer_attempts import Trainer, home, times
from tests.agent.watched_run import WatchedRun


@pytest.fixture
def run(tmp_path: Path) -> WatchedRun:
    return WatchedRun(tmp_path)


def test_a_state_costs_what_is_new_in_it(run: WatchedRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    training = Trainer(run, is_silent=True)
    training.train(200)
    training.save()
    training.look()
    training.resume(200)
    training.train(300)
    training.save()
    training.look()
    before = times(run, tmp_path)
    calls = {"lines": 0, "entries": 0}
    take, entry = past._take, trainer_state._entry  # noqa: SLF001 - what is counted is what costs

    def count_line(*args: Any) -> None:
        calls["lines"] += 1
        take(*args)

    def count_entry(*args: Any) -> past.Entry | None:
        calls["entries"] += 1
        return entry(*args)

    monkeypatch.setattr(past, "_take", count_line)
    monkeypatch.setattr(trainer_state, "_entry", count_entry)
    for until in (310, 320, 330):
        training.train(until)
        run.now += 100
        training.save()
        training.look()
    assert calls["entries"] == 33
    assert calls["lines"] <= 120, "those of the state before, which were written after it was compared"
    found = times(run, tmp_path)
    assert list(found) == list(range(1, 331))
    assert {step: found[step] for step in before} == before
    ordered = list(found.values())
    assert ordered == sorted(ordered)


def test_a_state_of_another_training_is_read_whole(
    run: WatchedRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = Trainer(run, is_silent=True)
    first.train(100)
    first.save()
    first.look()
    monkeypatch.setattr("tests.agent.test_agent_trainer_attempts.loss", lambda step: 1 / step)
    second = Trainer(run, is_silent=True)
    second.train(120)
    second.save()
    second.look()
    assert [value for _, value in home(run, tmp_path).values()] == [1 / step for step in range(1, 121)]


def test_where_another_source_has_all_metrics_a_state_is_not_compared(
    run: WatchedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    training = Trainer(run, is_silent=True)
    line = {"step": 1, "time": 1500.0, "values": {"loss": 0.5, "grad_norm": 1.0, "epoch": 0.1}}
    Path(run.paths.reported).write_text(json.dumps(line) + "\n")
    run.look()
    training.train(20)
    training.save()
    monkeypatch.setattr(past, "read", lambda *_: pytest.fail("64 MB are read for nothing"))
    training.look()
    assert run.curve("loss") == [(1, 0.5)]
    assert not any("no longer read" in said for said in run.findings())
