"""A Trainer without a bar over several attempts: every point keeps its step and the time at which it was printed."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

import pytest
from armada_agent.metrics import past

from armada.monitor.records import read_lines
from armada.store import metrics, runs
from armada.store.database import Database
from tests import hostile
from tests.agent.watched_run import WatchedRun
from tests.chance import dice

PER_EPOCH = 16
TOTAL = 2000


class Trainer:
    """What transformers 5.23 prints with `disable_tqdm=True` and writes into its checkpoints.

    Attributes:
        decimals: Those of an epoch, in older releases.
    """

    def __init__(self, run: WatchedRun, every: int = 1, total: int = TOTAL, is_silent: bool = False) -> None:
        self.run = run
        self.every = every
        self.total = total
        self.is_silent = is_silent
        self.history: list[dict[str, Any]] = []
        self.step = 0
        self.decimals = 17

    def train(self, until: int, lines_per_look: int = 10) -> None:
        """Print the losses up to a step; the watch looks after so many lines."""
        count = 0
        while self.step < until:
            self.step += 1
            if self.step % self.every:
                continue
            said = {"loss": loss(self.step), "grad_norm": 1.5, "epoch": round(self.step / PER_EPOCH, self.decimals)}
            self.history.append({**said, "step": self.step})
            self.print(said)
            count += 1
            if count % lines_per_look == 0:
                self.run.look()
        self.run.look()
        self.run.look()

    def print(self, said: dict[str, float]) -> None:
        if not self.is_silent:
            self.run.print(str({name: f"{value:.4g}" for name, value in said.items()}) + "\n")

    def evaluate(self, value: float) -> None:
        said = {"eval_loss": value, "epoch": self.step / PER_EPOCH}
        self.history.append({**said, "step": self.step})
        self.print(said)

    def save(self) -> Path:
        """Write a checkpoint."""
        place = self.run.work / "out" / f"checkpoint-{self.step}" / "trainer_state.json"
        place.parent.mkdir(parents=True, exist_ok=True)
        state = {"global_step": self.step, "epoch": self.step / PER_EPOCH, "max_steps": self.total}
        place.write_text(json.dumps({**state, "logging_steps": self.every, "log_history": self.history}))
        os.utime(place, (self.run.now, self.run.now))
        return place

    def look(self) -> None:
        """Let the watch find the checkpoint."""
        self.run.look(final=True)

    def resume(self, step: int, is_lost: bool = False) -> None:
        """Begin the next attempt with a checkpoint, after the last one has ended or the machine was lost."""
        if not is_lost:
            self.run.look(final=True)
        self.run.now += 100
        self.run.begin()
        self.history = [entry for entry in self.history if entry["step"] <= step]
        self.step = step


def loss(step: int) -> float:
    return 5 * math.exp(-step / 700) + 0.123456789


def home(run: WatchedRun, tmp_path: Path, name: str = "loss") -> dict[int, tuple[float, float]]:
    """What home has of a curve: time and value by step."""
    path = tmp_path / "armada.db"
    path.unlink(missing_ok=True)
    with Database(path) as database:
        runs.insert(database, run_id="script-1", name="s", host="here", task="script", spec={}, experiment=None)
        text = Path(run.paths.metrics).read_text()
        metrics.record_metrics(database, "script-1", read_lines(text, "metrics").records, offset=0, next_offset=9)
        query = "SELECT p.step, p.time, p.value FROM points p JOIN series s ON s.id = p.series WHERE s.name = ? ORDER BY step"
        return {row["step"]: (row["time"], row["value"]) for row in database.connection.execute(query, (name,))}


def times(run: WatchedRun, tmp_path: Path) -> dict[int, float]:
    return {step: moment for step, (moment, _) in home(run, tmp_path).items()}


@pytest.fixture
def run(tmp_path: Path) -> WatchedRun:
    return WatchedRun(tmp_path)


def test_a_point_of_the_state_keeps_the_time_at_which_it_was_printed(run: WatchedRun, tmp_path: Path) -> None:
    training = Trainer(run, every=2)
    training.train(40)
    printed = times(run, tmp_path)
    assert list(printed) == list(range(1, 21))
    training.save()
    run.now += 500
    training.look()
    assert times(run, tmp_path) == {2 * line: moment for line, moment in printed.items()}


def test_an_evaluation_keeps_its_time(run: WatchedRun, tmp_path: Path) -> None:
    training = Trainer(run)
    training.train(10)
    run.now += 20
    training.evaluate(0.75)
    run.look()
    run.look()
    at = run.now
    run.now += 20
    training.train(20)
    training.save()
    run.now += 500
    training.look()
    ((step, (moment, value)),) = home(run, tmp_path, "eval_loss").items()
    assert (step, value) == (10, 0.75)
    assert moment == pytest.approx(at, abs=2)


def test_a_resumed_attempt_begins_at_its_checkpoint_and_repeats_nothing(run: WatchedRun, tmp_path: Path) -> None:
    training = Trainer(run)
    training.train(100)
    training.save()
    training.look()
    training.train(130)
    before = times(run, tmp_path)
    training.resume(100)
    began = run.now
    training.train(110)
    assert run.watch.step == 110
    resumed = times(run, tmp_path)
    assert list(resumed) == list(range(1, 131))
    assert {step: resumed[step] for step in range(1, 101)} == {step: before[step] for step in range(1, 101)}
    assert min(resumed[step] for step in range(101, 111)) > began
    training.train(200)
    told = len(run.lines())
    training.save()
    training.look()
    assert len(run.lines()) == told
    found = home(run, tmp_path)
    assert list(found) == list(range(1, 201))
    assert all(value == pytest.approx(loss(step), rel=1e-3) for step, (_, value) in found.items())
    ordered = [moment for moment, _ in found.values()]
    assert ordered == sorted(ordered)


def test_a_checkpoint_that_the_killed_attempt_left_unread_is_read_first(run: WatchedRun, tmp_path: Path) -> None:
    training = Trainer(run, every=5)
    training.train(100)
    training.save()  # the machine is lost before the next look
    before = times(run, tmp_path)
    run.watch._save()  # noqa: SLF001 - what it does every ten seconds
    training.resume(100, is_lost=True)
    training.train(150)
    found = times(run, tmp_path)
    assert list(found) == list(range(5, 151, 5))
    assert [found[step] for step in range(5, 101, 5)] == list(before.values())
    assert not any(line.get("steps") for line in run.lines() if line["attempt"] == 2)


def test_without_any_checkpoint_the_count_continues_where_the_epoch_says(run: WatchedRun, tmp_path: Path) -> None:
    training = Trainer(run, every=5)
    training.train(200)
    training.resume(150)  # its checkpoints lie where armada sees none
    training.train(160)
    found = home(run, tmp_path)
    assert list(found) == list(range(1, 41))
    assert found[1][1] == pytest.approx(loss(5), rel=1e-3)
    assert found[31][1] == pytest.approx(loss(155), rel=1e-3)
    assert found[31][0] > found[40][0]
    training.resume(0)
    training.train(10)
    assert run.lines()[-1]["step"] == 2  # it began anew


def test_another_distance_between_losses_is_noticed(run: WatchedRun, tmp_path: Path) -> None:
    training = Trainer(run, every=10)
    training.train(100)
    training.save()
    training.look()
    training.resume(100)
    training.every = 1
    training.train(110)
    assert list(home(run, tmp_path)) == [*range(10, 101, 10), *range(101, 111)]
    training.resume(100)
    training.every = 4
    training.train(120)
    assert [line["step"] for line in run.lines() if line["attempt"] == 3] == [104, 108, 112, 116, 120]


def test_epochs_of_many_steps_are_printed_too_roughly_and_the_distance_helps(
    run: WatchedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.agent.test_agent_trainer_attempts.PER_EPOCH", 30_000)
    training = Trainer(run, total=60_000)
    training.step = 40_000
    training.train(40_050)
    training.save()
    training.look()
    training.resume(40_050)
    training.train(40_100)
    assert [line["step"] for line in run.lines() if line["attempt"] == 2] == list(range(40_051, 40_101))


def test_a_training_that_is_resumed_to_be_longer_is_not_held_at_its_old_end(run: WatchedRun, tmp_path: Path) -> None:
    training = Trainer(run, total=50)
    training.train(50)
    training.save()
    training.look()
    training.resume(50)
    training.total = 100
    training.train(60)
    assert list(home(run, tmp_path)) == list(range(1, 61))
    assert run.watch.total is None
    training.save()
    training.look()
    assert run.watch.total == 100


def test_where_nothing_is_printed_points_are_spread_between_what_is_known(run: WatchedRun, tmp_path: Path) -> None:
    training = Trainer(run, every=10, is_silent=True)
    began = run.now
    training.step = 0
    training.train(100)
    run.now = began + 1000
    training.save()
    run.now += 50
    training.look()
    first = times(run, tmp_path)
    assert [first[step] - began for step in range(10, 101, 10)] == pytest.approx(range(100, 1001, 100))
    training.resume(100)
    resumed = run.now
    training.train(200)
    run.now = resumed + 500
    training.save()
    run.now += 77
    training.look()
    found = times(run, tmp_path)
    assert {step: found[step] for step in first} == first
    assert [found[step] - resumed for step in range(110, 201, 10)] == pytest.approx(range(50, 501, 50))


def test_what_was_printed_between_writing_and_reading_a_checkpoint_is_kept(run: WatchedRun, tmp_path: Path) -> None:
    training = Trainer(run, every=5)
    training.train(100)
    training.save()
    training.train(150)
    at = run.now
    run.now += 5
    training.look()
    found = times(run, tmp_path)
    assert list(found) == list(range(5, 151, 5))
    assert found[150] == pytest.approx(at, abs=3)
    training.train(160)
    assert list(times(run, tmp_path))[-2:] == [155, 160]


def test_a_supervisor_that_takes_over_counts_on(run: WatchedRun, tmp_path: Path) -> None:
    training = Trainer(run, every=5)
    training.train(100)
    run.watch._save()  # noqa: SLF001 - what it does every ten seconds
    run.take_over()
    training.train(150)
    before = times(run, tmp_path)
    assert list(before) == list(range(1, 31))
    training.save()
    training.look()
    assert times(run, tmp_path) == {5 * line: moment for line, moment in before.items()}


def test_a_log_that_is_cut_spreads_only_what_is_missing(run: WatchedRun, tmp_path: Path) -> None:
    training = Trainer(run)
    training.train(20)
    training.is_silent = True
    training.train(29)
    training.is_silent = False
    run.now += 100
    training.train(40)
    printed = sorted(moment for moment in times(run, tmp_path).values())
    training.save()
    training.look()
    found = times(run, tmp_path)
    ordered = list(found.values())
    assert list(found) == list(range(1, 41))
    assert ordered == sorted(ordered)
    assert ordered[:20] + ordered[29:] == printed


def test_what_armada_log_says_is_not_taken_back_with_the_log(run: WatchedRun, tmp_path: Path) -> None:
    training = Trainer(run)
    training.train(5)
    reported = Path(run.paths.reported)
    lines = [{"step": 100 + step, "time": 1500.0 + step, "values": {"loss": 0.5}} for step in range(10)]
    reported.write_text("".join(json.dumps(line) + "\n" for line in lines))
    run.look()
    said = {100 + step: (1500.0 + step, 0.5) for step in range(10)}
    assert home(run, tmp_path) == said  # without the five that were counted
    training.train(20)
    training.save()
    training.look()
    assert home(run, tmp_path) == said
    assert list(home(run, tmp_path, "grad_norm")) == list(range(1, 21))
    training.resume(20)
    training.train(30)
    training.save()
    training.look()
    assert len(home(run, tmp_path, "grad_norm")) == 30


def test_lines_that_are_read_together_give_no_pace(run: WatchedRun) -> None:
    Trainer(run).train(20, lines_per_look=10)
    paces = [line["step_time_s"] for line in run.lines() if "step_time_s" in line]
    assert paces == [pytest.approx(1 / 9)]  # the last line of each look waits for a bar


def test_a_metrics_file_that_is_damaged_costs_times_and_no_points(run: WatchedRun, tmp_path: Path) -> None:
    chance = dice(81)
    training = Trainer(run)
    training.train(20)
    right = Path(run.paths.metrics).read_bytes()
    for number in range(hostile.CASES):
        content = (
            hostile.content(chance, right)
            + b'\n{"source": "log", "step": 1, "time": "1e400", "epoch": [], "loss": {}}\n'
        )
        damaged = tmp_path / f"damaged-{number}"
        damaged.write_bytes(content)
        entries = [past.Entry(1, {"loss": 1.0}, None, "train", past.mark_of(None, {"loss": loss(1), "epoch": 1 / 16}))]
        found = past.read(str(damaged), entries)
        assert all(0 < moment < 1e11 for moment in found.times.values())
    assert past.read(str(tmp_path / "none"), []).times == {}


def test_times_never_go_backwards_and_none_is_in_the_future() -> None:
    chance = dice(82)
    for _ in range(hostile.CASES):
        known = [chance.choice([None, chance.uniform(-5, 3000)]) for _ in range(chance.randrange(0, 30))]
        began, written, now = (chance.uniform(0, 2000) for _ in range(3))
        found = past.moments(known, began, written, now, is_of_this_attempt=written >= began)
        assert len(found) == len(known)
        assert found == sorted(found)
        assert max([*found, 0]) <= now


def test_a_state_whose_steps_go_backwards_is_given_with_ordered_times(run: WatchedRun, tmp_path: Path) -> None:
    training = Trainer(run)
    training.train(10)
    training.history.reverse()
    training.history += [{"step": 1 << 60, "loss": 1, "epoch": 1e300}, {"step": 3, "loss": "nan", "epoch": "x"}]
    training.save()
    training.look()
    found = times(run, tmp_path)
    assert list(found) == list(range(1, 11))
    assert max(found.values()) <= run.now
    training.train(12)
    assert not any("no longer read" in said for said in run.findings())


def test_what_an_older_agent_kept_is_enough_to_continue(run: WatchedRun) -> None:
    training = Trainer(run)
    training.train(20)
    training.save()
    training.look()
    record = run.folder / "curves.json"
    kept = json.loads(record.read_text())
    del kept["sources"]["trainer_state"]["taught"], kept["recorder"]["counted"], kept["recorder"]["placed"]
    kept["sources"]["log"] = {"offset": 5, "head": ""}
    record.write_text(json.dumps(kept))
    training.resume(20)
    training.train(40)
    training.save()
    training.look()
    assert [step for step, _ in run.curve("loss")] == list(range(1, 41))


@pytest.mark.parametrize("is_flat", [False, True])
def test_where_epochs_have_two_decimals_the_steps_after_a_checkpoint_are_right(
    run: WatchedRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_flat: bool
) -> None:
    monkeypatch.setattr("tests.agent.test_agent_trainer_attempts.PER_EPOCH", 10_000)
    if is_flat:
        monkeypatch.setattr("tests.agent.test_agent_trainer_attempts.loss", lambda _step: 0.5)
    training = Trainer(run, every=10, total=30_000)
    training.decimals = 2
    training.train(500)
    training.save()
    training.train(530)
    training.look()
    training.train(900)
    assert list(home(run, tmp_path)) == list(range(10, 901, 10))


def test_a_state_of_which_no_line_was_printed_is_joined_by_the_epoch(run: WatchedRun, tmp_path: Path) -> None:
    training = Trainer(run, every=5, is_silent=True)
    training.train(100)
    training.save()
    training.is_silent = False
    training.train(150)
    training.look()
    training.train(160)
    assert list(home(run, tmp_path)) == list(range(5, 161, 5))


def test_a_round_epoch_is_as_precise_as_those_before_it(run: WatchedRun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.agent.test_agent_trainer_attempts.PER_EPOCH", 3125)
    training = Trainer(run, every=50, total=9375)
    training.step = 2000
    training.train(2500)
    training.save()
    training.look()
    training.resume(2500)
    training.every = 25
    training.train(3800)
    assert [line["step"] for line in run.lines() if line["attempt"] == 2] == list(range(2525, 3801, 25))
