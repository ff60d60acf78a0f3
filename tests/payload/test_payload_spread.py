"""What a bench says a second one would differ by, and into how many turns it divides a cell."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from statistics import median

import pytest
from armada_train.bench.spread import NONE, spreads
from armada_train.bench.turns import Turn, Turns
from armada_train.specification.values import Measurement
from armada_train.training.step_times import describe_steps, t_95

CELLS = 6


def turn(
    at: float = 0.0, steps_s: tuple[float, ...] = (0.1,) * 10, products_s: tuple[float, ...] = (0.01, 0.01)
) -> Turn:
    return Turn(
        at=at,
        steps_s=steps_s,
        tokens=100.0 * len(steps_s),
        samples=8.0,
        products_s=products_s,
        data_wait_s=0.0,
        warmup_s=1.0,
        cell_s=12.0,
        peak_memory_bytes=1,
        mfu=None,
    )


class Machine:
    """A machine whose speed drifts: its logarithm returns to 0 within `memory_s`, and jitters from step to step."""

    def __init__(self, seed: int, deviation: float, memory_s: float, jitter: float) -> None:
        self._random = random.Random(seed)
        self._deviation, self._memory_s, self._jitter = deviation, memory_s, jitter
        self._now = self._random.gauss(0, deviation)
        self.time_s = 0.0

    def takes(self, work_s: float) -> float:
        """Return how long work takes that takes `work_s` at the usual speed."""
        kept = math.exp(-work_s / self._memory_s)
        self._now = self._now * kept + self._random.gauss(0, self._deviation * math.sqrt(1 - kept**2))
        self.time_s += work_s
        return work_s * math.exp(-self._now + self._random.gauss(0, self._jitter))

    def bench(self, turns: int) -> dict[int, list[Turn]]:
        """Measure cells of 30 s in so many turns."""
        done: dict[int, list[Turn]] = {cell: [] for cell in range(CELLS)}
        for _ in range(turns):
            for its in done.values():
                self.takes(1.5)
                looks = [self.takes(0.2)]
                steps: list[float] = []
                while len(steps) < 60 // turns:
                    steps += [self.takes(0.5) for _ in range(60 // turns // (2 if turns > 1 else 4))]
                    looks.append(self.takes(0.2))
                its.append(turn(self.time_s, tuple(steps), tuple(looks)))
        return done


def speed(turns: list[Turn]) -> float:
    return sum(each.tokens for each in turns) / sum(each.measured_s for each in turns)


@pytest.mark.parametrize("turns", [1, 3])
@pytest.mark.parametrize(
    ("deviation", "memory_s", "widest"),
    [pytest.param(0.0, 10, 0.06, id="idle"), pytest.param(0.05, 30, 0.2, id="shared")],
)
def test_a_second_bench_repeats_the_first_within_its_spread(
    deviation: float, memory_s: float, widest: float, turns: int
) -> None:
    kept, widths = [], []
    for seed in range(100):
        machine = Machine(seed, deviation, memory_s, jitter=0.02)
        first, second = machine.bench(turns), machine.bench(turns)
        stated = spreads(first, dict.fromkeys(first, "cpu"))
        kept += [abs(speed(second[cell]) / speed(first[cell]) - 1) <= stated[cell].whole for cell in first]
        widths += [stated[cell].whole for cell in first]
    assert sum(kept) / len(kept) >= 0.94
    assert median(widths) < widest


def test_a_bench_at_another_time_meets_a_slower_machine() -> None:
    """Its speed is steady for minutes: a bench sees of that only what its own turns differ by."""
    kept, order = [], []
    for seed in range(60):
        machine = Machine(seed, 0.08, 120, jitter=0.02)
        first = machine.bench(4)
        machine.takes(600)
        second = machine.bench(4)
        stated = spreads(first, dict.fromkeys(first, "cpu"))
        kept += [abs(speed(second[cell]) / speed(first[cell]) - 1) <= stated[cell].whole for cell in first]
        order += [
            abs(speed(first[cell]) / speed(first[0]) - 1) <= stated[cell].beside + stated[0].beside for cell in first
        ]
    assert sum(kept) / len(kept) >= 0.9
    assert sum(order) / len(order) >= 0.95  # of equal cells, none is called faster


def test_more_turns_tell_cells_of_a_shared_machine_apart() -> None:
    once, often = (
        median(
            spreads(Machine(seed, 0.05, 30, 0.02).bench(turns), dict.fromkeys(range(CELLS)))[0].beside
            for seed in range(60)
        )
        for turns in (1, 5)
    )
    assert often < 0.75 * once


def test_machines_that_differ_are_not_compared() -> None:
    """Two processes share the threads of a machine: its own product takes longer beside them, and nothing has changed."""
    cells = {1: [turn(1.0), turn(3.0)], 2: [turn(2.0, products_s=(0.03, 0.03)), turn(4.0, products_s=(0.03,))]}
    apart = spreads(cells, {1: 1, 2: 2})
    assert (apart[1].machine.later, apart[2].varied) == (0.0, 0.0)
    together = spreads(cells, {1: 1, 2: 1})
    assert together[1].machine.now > 0.5
    assert together[2].varied == pytest.approx(2.0)


def test_few_turns_say_nothing_and_a_cell_without_products_has_a_spread_all_the_same() -> None:
    slow = turn(2.0, steps_s=(0.2,) * 10, products_s=())
    two = spreads({1: [turn(1.0, products_s=()), slow]}, {1: 1})[1]
    assert (two.turns, two.machine) == (NONE, NONE)
    assert two.whole == two.beside == two.steps > 0.2
    four = spreads({1: [turn(1.0), slow], 2: [turn(1.0), slow], 3: [turn(1.0), slow]}, dict.fromkeys((1, 2, 3), 1))[1]
    assert four.turns.later == pytest.approx(math.sqrt(2) * 3.18 * math.log(2) / math.sqrt(2), rel=0.01)
    assert four.turns.now == pytest.approx(four.turns.later / math.sqrt(2))


def test_starts_take_less_than_a_fifth_of_the_time() -> None:
    asked = Measurement(warmup_steps=3, steps=10, seconds=30.0)
    assert [asked.turns(start_s) for start_s in (0.0, 1.0, 2.0, 5.0, 600.0)] == [5, 5, 2, 1, 1]
    assert asked.seconds / (asked.seconds + 2.0 * asked.turns(2.0)) > 0.8


def test_the_turns_of_a_cell_measure_together_what_was_asked() -> None:
    asked = Measurement(warmup_steps=3, steps=30, seconds=3.0)
    assert Turns().next(asked, 7.0) == replace(asked, started_at=7.0)
    turns = Turns().and_then(turn(), 3)
    for left in (turns.next(asked, 7.0), turns.and_then(turn(), 1).next(asked, 7.0)):
        assert left.seconds == pytest.approx(1.0)
        assert (left.steps, left.started_at) == (10, None)
    assert turns.next(replace(asked, seconds=0.5, steps=4), 7.0).steps == 2


def test_t_of_many_degrees_of_freedom_is_nearly_that_of_the_normal_distribution() -> None:
    assert [round(t_95(freedom), 2) for freedom in (0.5, 1, 2.9, 9, 20, 1000)] == [12.71, 12.71, 4.3, 2.26, 2.09, 1.96]


def test_the_spread_of_steps_is_that_of_their_blocks() -> None:
    even = describe_steps([0.1] * 40)
    assert even["step_time_s"] == pytest.approx(0.1)
    assert even["spread"] == pytest.approx(0)
    # One half is slower: as independent steps they would promise 7 %, which a second bench would not keep.
    drifting = describe_steps([0.1] * 20 + [0.2] * 20)
    assert 0.2 < drifting["spread"] < 0.8
