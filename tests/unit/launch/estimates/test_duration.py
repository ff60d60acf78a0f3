"""Hours: steps, what is beside them, and whether a run of 50 steps tells how long the next one takes."""

from __future__ import annotations

import dataclasses
import statistics

import pytest

from armada.launch.estimates.duration import (
    LOADING_S,
    Work,
    count_steps,
    estimate_cost,
    estimate_duration,
    estimate_step,
    tokens_per_row,
)
from armada.launch.estimates.memory import TrainingShape
from armada.launch.estimates.ranges import Range
from armada.launch.estimates.speed import Measured, Speed, Workload, estimate_speed
from tests.chance import dice

WORK = Work(samples=16, length=2048, max_steps=100)
SPEED = Speed(Range.around(32_768.0, 1.1), "run", "run r-1")


def test_steps_are_those_of_the_experiment_or_all_rows_in_batches() -> None:
    assert count_steps(WORK) == Range.exactly(100.0)
    epochs = dataclasses.replace(WORK, max_steps=None, epochs=3.0, rows=1000.0)
    assert count_steps(epochs) == Range.exactly(188.0)
    assert count_steps(dataclasses.replace(epochs, rows=None)) is None
    packed = count_steps(dataclasses.replace(epochs, packing=True, row_bytes=2048.0))
    assert packed is not None
    assert packed.low < 3 * 1000 * 512 / 2048 / 16 < packed.high


def test_rows_have_as_many_tokens_as_their_size_says_and_at_most_max_length() -> None:
    assert tokens_per_row(dataclasses.replace(WORK, row_bytes=400.0)).middle == 100
    assert tokens_per_row(dataclasses.replace(WORK, row_bytes=1e9)).high == 2048
    assert tokens_per_row(dataclasses.replace(WORK, row_bytes=0.001)).low == 1
    unknown = tokens_per_row(WORK)
    assert unknown.low < 0.2 * unknown.high


def test_the_parts_are_start_steps_evaluations_and_saves() -> None:
    work = dataclasses.replace(
        WORK, packing=True, eval_rows=160, eval_every=50, save_every=25, save_bytes=7e9, sent_bytes=125_000_000,
        fetched_bytes=60_000_000, builds=True,
    )  # fmt: skip
    found = estimate_duration(work, SPEED)
    assert found is not None
    assert list(found.parts) == ["start", "steps", "evaluations", "saves"]
    assert found.parts["steps"].middle == pytest.approx(95.0)
    assert found.parts["evaluations"].middle == pytest.approx(4 * 10 * 0.95 * 0.33)
    assert found.parts["saves"].middle == pytest.approx(5 * 10)
    assert found.parts["start"].middle == pytest.approx(LOADING_S.middle + 300 + 10 + 1)
    assert found.total_s.middle == pytest.approx(sum(part.middle for part in found.parts.values()))
    assert found.total_s.is_sane


def test_samples_a_second_of_the_same_data_need_no_guess_about_tokens() -> None:
    known = dataclasses.replace(SPEED, samples_per_s=Range.exactly(8.0), eval_s=30.0)
    assert estimate_step(WORK, known) == Range.exactly(2.0)
    found = estimate_duration(dataclasses.replace(WORK, eval_rows=None), known)
    assert found is not None
    assert found.parts["evaluations"].middle == 60


def test_the_whole_host_is_paid_for() -> None:
    assert estimate_cost(Range(1800.0, 3600.0, 7200.0), 12.0) == Range(6.0, 12.0, 24.0)
    assert estimate_cost(Range.exactly(3600.0), 0.0) == Range.exactly(0.0)


def test_absurd_figures_give_no_hours() -> None:
    slow = Speed(Range.exactly(1e-300), "run", "")
    assert estimate_duration(dataclasses.replace(WORK, max_steps=2**31 - 1), slow) is None


@pytest.mark.parametrize("deviation", [0.02, 0.2, 0.5])
def test_fifty_recorded_steps_tell_how_long_the_same_training_takes(deviation: float) -> None:
    """Steps differ by the lengths of their rows; the whole of 1,000 steps has to be within the range that 50 gave."""
    chance = dice(50)
    within = 0
    for _ in range(200):
        pace = chance.uniform(0.05, 60.0)
        steps = [pace * max(0.1, chance.gauss(1.0, deviation)) for _ in range(1050)]
        first, rest = steps[:50], steps[50:]
        mean = statistics.fmean(first)
        workload = Workload(
            '"m"', None, TrainingShape(method="full", micro_batch=1, length=2048), "a100", "box", 1, frozenset("d")
        )
        spread = statistics.pstdev(first) / mean
        run = Measured("r", workload, 50, mean, 1000.0, samples_per_s=16 / mean, deviation=spread)
        speed = estimate_speed(workload, [run], peak_flops=None, length=2048.0)
        assert speed is not None
        found = estimate_duration(dataclasses.replace(WORK, max_steps=1000), speed)
        assert found is not None
        within += found.parts["steps"].low < sum(rest) < found.parts["steps"].high
    assert within >= 190, "a range of two standard errors, and more for what differs between runs"
