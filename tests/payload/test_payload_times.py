"""Where a step's time goes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from armada_train.training.time_parts import (
    PARTS,
    HostTimer,
    QueueTimer,
    TimeParts,
    describe_parts,
    in_microseconds,
    timed,
)

from tests.payload.payload_run import PayloadRun, make_training, says_who_exchanged

pytestmark = pytest.mark.payload


@dataclass
class Clock:
    """Moves only when it is told."""

    now: float = 100.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Queue:
    """A GPU's queue: its events are reached when it is told."""

    clock: Clock = field(default_factory=Clock)
    reached: int = 0
    recorded: int = 0
    made: int = 0

    def event(self) -> Event:
        self.made += 1
        return Event(self)


@dataclass(eq=False)
class Event:
    queue: Queue
    place: int = 0
    at_s: float = 0.0

    def record(self) -> None:
        self.queue.recorded += 1
        self.place, self.at_s = self.queue.recorded, self.queue.clock.now

    def query(self) -> bool:
        return self.place <= self.queue.reached

    def elapsed_time(self, later: Event) -> float:
        assert self.query()
        assert later.query(), "a GPU answers only about what it has reached"
        return 1000 * (later.at_s - self.at_s)


def spent(times: TimeParts) -> dict[str, float]:
    return {part: seconds for part, seconds in times.lap().items() if seconds}


def test_a_moment_belongs_to_the_innermost_part() -> None:
    clock = Clock()
    times = TimeParts(HostTimer(clock), clock)
    clock.now += 50  # loading
    times.begin(0)
    clock.now += 1
    with times.part("forward"):
        clock.now += 2
        with times.part("communication"):
            clock.now += 4
        clock.now += 8
    assert spent(times) == {"other": 1, "forward": 10, "communication": 4}
    with times.part("saving"), times.part("communication"):
        clock.now += 16
    times.enter("backward")
    clock.now += 32
    assert spent(times) == {"saving": 16, "backward": 32}  # a lap in the middle of a part
    times.turn_into("communication")
    clock.now += 64
    times.leave()
    assert spent(times) == {"communication": 64}


def test_a_part_ends_although_what_it_does_fails() -> None:
    clock = Clock()

    class Trained:
        times = TimeParts(HostTimer(clock), clock)

        @timed("evaluation")
        def evaluate(self) -> None:
            clock.now += 1
            raise RuntimeError("no")

    trained = Trained()
    with pytest.raises(RuntimeError, match="no"):
        trained.evaluate()
    clock.now += 2
    trained.times.leave()  # one too many changes nothing
    assert spent(trained.times) == {"evaluation": 1, "other": 2}


def test_waits_for_batches_are_data_and_the_end_of_the_batches_passes_through() -> None:
    clock = Clock()
    times = TimeParts(HostTimer(clock), clock)

    def batches() -> Iterator[int]:
        for number in range(2):
            clock.now += 3
            yield number

    for _ in times.watch(batches()):
        clock.now += 1
    assert times.waited_s == 6
    ranks = [*in_microseconds(times.lap()), *in_microseconds(dict.fromkeys(PARTS, 0.5))]
    assert times.describe(ranks, 2)["data_wait_s"] == 3
    assert times.describe(ranks, 5)["time/data"] == pytest.approx(6.5 / 2 / 3)


def test_a_gpus_time_is_read_only_when_it_was_reached_and_events_are_used_again() -> None:
    queue = Queue()
    times = TimeParts(QueueTimer(queue.event))
    times.begin(0)
    for _ in range(3):
        with times.part("forward"):
            queue.clock.now += 1
    assert spent(times) == {}  # the GPU has begun nothing
    queue.reached = queue.recorded - 3
    assert spent(times) == {"forward": 2}
    queue.reached = queue.recorded
    assert spent(times) == {"forward": 1}
    made = queue.made
    for _ in range(100):
        with times.part("backward"):
            queue.clock.now += 1
        queue.reached = queue.recorded
    assert spent(times)["backward"] >= 99
    assert queue.made <= made + 3


def test_the_rank_that_makes_others_wait_is_named() -> None:
    nothing = dict.fromkeys(PARTS, 0.0)
    ranks = [{**nothing, "data": 1.0, "forward": 3.0, "communication": 6.0}, {**nothing, "forward": 8.0, "data": 2.0}]
    told = describe_parts(ranks, 2)
    assert (told["time/forward"], told["time/communication"]) == (11 / 4, 6 / 4)
    assert (told["time/slowest_rank"], told["time/waits_for_it"], told["time/data_slowest"]) == (1, 3, 1)
    assert "time/slowest_rank" not in describe_parts(ranks[:1], 2)


def test_every_line_says_where_the_time_of_its_steps_went(undisturbed: PayloadRun) -> None:
    lines = undisturbed.lines("train")
    for line in lines:
        assert {f"time/{part}" for part in PARTS} <= line.keys()
        assert min(line["time/data"], line["time/forward"], line["time/backward"], line["time/optimizer"]) > 0
        assert line["time/communication"] == 0
        assert "time/slowest_rank" not in line
    # Saved after the steps 4, 8 and 12, whose lines were written before; evaluated before the first step and at the end.
    assert [line["step"] for line in lines if line["time/saving"]] == [6, 10]
    assert [line["step"] for line in lines if line["time/evaluation"]] == [1]
    assert undisturbed.summary["time/saving"] > 0
    assert undisturbed.summary["time/evaluation"] > 0


# Replicas are in `make test`: test_two_gloo_ranks_equal_one_process_with_twice_the_accumulation.
@pytest.mark.long
def test_ranks_that_divide_the_model_say_how_long_they_exchanged(chat_files: tuple[Path, Path], make_run: Any) -> None:
    batch = {"global": 8, "micro": 2, "accumulation": 2, "processes": 2}
    run = make_run(make_training(chat_files[0], batch=batch, train={"max_steps": 3, "sharding": "fsdp"}, lora=None))
    run.train(launcher=True)
    says_who_exchanged(run)
