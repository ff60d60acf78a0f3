"""trainer_state.json in a checkpoint completes what the log says; recorded with transformers 5.23."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from armada_agent.metrics import trainer_state

from armada.monitor.records import read_lines
from armada.store import metrics, runs
from armada.store.database import Database
from tests import hostile
from tests.agent.watched_run import RECORDINGS, WatchedRun
from tests.chance import dice

EVERY_OTHER = list(range(2, 31, 2))


@pytest.fixture
def run(tmp_path: Path) -> WatchedRun:
    return WatchedRun(tmp_path)


def save(run: WatchedRun, step: int, content: bytes | None = None) -> Path:
    """Put the state of a checkpoint where the Trainer does."""
    place = run.work / "out" / f"checkpoint-{step}" / "trainer_state.json"
    place.parent.mkdir(parents=True)
    recorded = RECORDINGS / f"trainer_state-{step}.json"
    place.write_bytes(recorded.read_bytes() if content is None else content)
    return place


def printed(lines: slice) -> str:
    return "".join((RECORDINGS / "trainer-plain.log").read_text().splitlines(keepends=True)[lines])


def test_where_nothing_is_printed_the_state_has_the_curves(run: WatchedRun) -> None:
    save(run, 10)
    run.look(final=True)
    assert [step for step, _ in run.curve("loss")] == [2, 4, 6, 8, 10]
    assert [step for step, _ in run.curve("eval_loss")] == [10]
    assert (run.watch.step, run.watch.total) == (10, 30)
    save(run, 30)
    run.look(final=True)
    assert [step for step, _ in run.curve("loss")] == EVERY_OTHER  # each once
    assert run.watch.step == 30


def test_steps_that_were_counted_are_put_right(run: WatchedRun, tmp_path: Path) -> None:
    text = (RECORDINGS / "trainer-plain.log").read_text()
    middle = text.index("{'eval_loss'")
    run.print(text[:middle])
    run.look()
    run.look()
    assert [step for step, _ in run.curve("loss")] == [1, 2, 3, 4, 5]
    save(run, 10)
    run.look(final=True)
    assert [step for step, _ in run.curve("loss")] == [2, 4, 6, 8, 10]
    run.print(text[middle:])
    run.look(final=True)
    assert [step for step, _ in run.curve("loss")] == EVERY_OTHER
    assert [step for step, _ in run.curve("eval_loss")] == [10, 10, 20, 30]
    with Database(tmp_path / "armada.db") as database:
        runs.insert(database, run_id="script-1", name="s", host="here", task="script", spec={}, experiment=None)
        text = Path(run.paths.metrics).read_text()
        metrics.record_metrics(database, "script-1", read_lines(text, "metrics").records, offset=0, next_offset=9)
        assert [step for step, _ in metrics.curve(database, "script-1", "loss")] == EVERY_OTHER
        assert [step for step, _ in metrics.curve(database, "script-1", "eval_loss")] == [10, 20, 30]
        assert metrics.curve(database, "script-1", "counted/eval_loss") == []


def test_a_log_that_names_its_steps_is_not_told_again(run: WatchedRun) -> None:
    run.print((RECORDINGS / "trainer-bar.log").read_bytes().decode())
    run.look(final=True)
    before = run.lines()
    save(run, 30)
    run.look(final=True)
    assert run.lines() == before


def test_what_came_with_the_code_and_what_an_earlier_attempt_read_is_not_read(tmp_path: Path) -> None:
    there = tmp_path / "runs" / "script-1" / "work" / "old"
    there.mkdir(parents=True)
    (there / "trainer_state.json").write_bytes((RECORDINGS / "trainer_state-10.json").read_bytes())
    run = WatchedRun(tmp_path)
    run.look(final=True)
    assert run.lines() == []
    save(run, 30)
    run.look(final=True)
    told = len(run.lines())
    assert told
    run.begin()
    run.look(final=True)
    assert len(run.lines()) == told


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"[" * 100_000,
        b'{"log_history": 5}',
        b'{"log_history": [5, null, [], {"loss": 1}, {"step": -1, "loss": 1}, {"step": "x", "loss": 1}]}',
        b'{"log_history": [{"step": 1e999, "loss": 1.0, "epoch": NaN}], "max_steps": "many", "global_step": []}',
        b"\xff" * 1000,
    ],
)
def test_whatever_stands_in_its_place_the_log_is_read_on(run: WatchedRun, content: bytes) -> None:
    save(run, 10, content)
    run.print("{'loss': 0.5, 'step': 1}\n")
    run.look()
    run.look(final=True)
    assert run.curve("loss") == [(1, 0.5)]
    assert run.findings() == []


def test_records_thrown_from_dice_harm_nobody(run: WatchedRun) -> None:
    chance = dice(75)
    right = (RECORDINGS / "trainer_state-10.json").read_bytes()
    for number in range(hostile.CASES):
        place = save(run, 100 + number, hostile.content(chance, right))
        run.look(final=True)
        shutil.rmtree(place.parent)  # a search of ten thousand folders is not under test here
    run.print("{'loss': 0.5, 'step': 1000}\n")
    run.look(final=True)
    assert run.curve("loss")[-1] == (1000, 0.5)
    assert not any("no longer read" in said for said in run.findings())


def test_one_that_is_too_large_is_said_and_links_are_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = WatchedRun(tmp_path / "host")
    outside = tmp_path / "checkpoint-5"
    outside.mkdir()
    (outside / "trainer_state.json").write_bytes((RECORDINGS / "trainer_state-10.json").read_bytes())
    (run.work / "checkpoint-5").symlink_to(outside)
    (run.work / "trainer_state.json").symlink_to(outside / "trainer_state.json")
    run.look(final=True)
    (run.work / "trainer_state.json").unlink()
    os.mkfifo(run.work / "trainer_state.json")
    run.look(final=True)
    assert run.lines() == []
    monkeypatch.setattr(trainer_state, "_LONGEST", 100)
    save(run, 10)
    run.look(final=True)
    assert "is larger than" in run.findings()[0]


def test_a_reset_that_names_what_is_none_takes_nothing_back(tmp_path: Path) -> None:
    lines: list[dict[str, Any]] = [{"kind": "train", "step": 1, "time": 1.0, "attempt": 1, "loss": 0.5}]
    odd: list[Any] = [None, 5, "loss", {"loss": 1}, [["loss"], None, 7, "other"]]
    lines += [{"kind": "reset", "step": 0, "time": 0.0, "attempt": 1, "names": names} for names in odd]
    with Database(tmp_path / "armada.db") as database:
        runs.insert(database, run_id="r", name="r", host="here", task="script", spec={}, experiment=None)
        records = read_lines("\n".join(map(json.dumps, lines)), "metrics").records
        metrics.record_metrics(database, "r", records, offset=0, next_offset=9)
        assert metrics.curve(database, "r", "loss") == [(1, 0.5)]


def test_a_line_with_a_step_among_counted_ones_hinders_no_state(run: WatchedRun) -> None:
    text = (RECORDINGS / "trainer-plain.log").read_text()
    run.print(text[: text.index("{'eval_loss'")] + "{'loss': 0.3, 'step': 500}\n")
    run.look(final=True)
    assert [step for step, _ in run.curve("loss")] == [1, 2, 3, 4, 5, 500]
    save(run, 10)
    run.look(final=True)
    assert [step for step, _ in run.curve("loss")] == [2, 4, 6, 8, 10, 500]
