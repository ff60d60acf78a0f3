"""Estimate how long a training takes from its launch to its end: the start, steps, evaluations and saves.

Rates that armada cannot measure before the launch are assumed between the bounds below, which are wide on purpose.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from armada.launch.estimates.ranges import Range

if TYPE_CHECKING:
    from armada.launch.estimates.speed import Speed

BYTES_PER_TOKEN = Range(2.5, 4.0, 7.0)
"""Of a JSONL file: English text has about 4 characters a token, code and other languages fewer; keys and quotes add some."""

LOADING_S = Range(15.0, 60.0, 300.0)
"""Until the first step: Python's imports, the model, tokenised data, the first kernels."""

BUILDING_S = Range(60.0, 300.0, 1200.0)
"""An environment with CUDA's wheels, downloaded and unpacked."""

SENDING_BYTES_PER_S = Range(2e6, 12.5e6, 120e6)
"""From home to a host: 16 Mbit/s to 1 Gbit/s."""

FETCHING_BYTES_PER_S = Range(10e6, 60e6, 500e6)
"""From the hub to a host."""

SAVING_BYTES_PER_S = Range(0.15e9, 0.7e9, 3e9)
"""To a host's disk."""

_EVALUATED = Range(0.2, 0.33, 0.6)
"""The time of a sample in an evaluation, as a share of its time in training: a forward pass alone is a third."""


@dataclass(frozen=True, slots=True)
class Work:
    """The amount of work of a training.

    Attributes:
        samples: Samples of a step; rows of `length` tokens with packing.
        length: The longest row in tokens.
        max_steps: Steps, if they are given, or known from a run of the same data.
        epochs: Passes over the data, if these are given.
        rows: Rows of the data, weighted; None if they are counted on the host.
        row_bytes: The mean size of a row in its file; None if unknown.
        eval_rows: Rows of each evaluation; None if they are counted on the host.
        eval_every: Steps between two evaluations; None: at most before and after the training.
        save_every: Steps between two saves; None: only at the end, or by minutes.
        save_bytes: The size of a checkpoint.
        sent_bytes: What is sent from home.
        fetched_bytes: What the host downloads.
        builds: Whether the environment has to be built.
    """

    samples: int
    length: int
    max_steps: int | None = None
    epochs: float | None = None
    rows: float | None = None
    row_bytes: float | None = None
    packing: bool = False
    eval_rows: int | None = 0
    eval_every: int | None = None
    save_every: int | None = None
    save_bytes: float = 0.0
    sent_bytes: int = 0
    fetched_bytes: int = 0
    builds: bool = False


@dataclass(frozen=True, slots=True)
class Duration:
    """How long a training takes.

    Attributes:
        parts: Its parts in seconds: start, steps, evaluations, saves.
        steps: How many steps it has; None if unknown.
        step_s: Seconds of a step.
    """

    parts: dict[str, Range]
    steps: Range | None = None
    step_s: Range | None = None

    @property
    def total_s(self) -> Range:
        return Range.total(self.parts.values())


def tokens_per_row(work: Work) -> Range:
    """Estimate how many tokens a row has. Without packing, longer rows are dropped or cut, so `length` is the most."""
    most = float(work.length)
    if work.packing:
        return Range(0.85 * most, 0.95 * most, most)
    if not work.row_bytes:
        return Range(0.1 * most, 0.4 * most, most)
    found = Range.exactly(work.row_bytes).over(BYTES_PER_TOKEN)
    return Range(*(max(1.0, min(most, value)) for value in (found.low, found.middle, found.high)))


def count_steps(work: Work) -> Range | None:
    """Estimate the number of steps; exact where the experiment gives it or every row is one sample."""
    if work.max_steps is not None:
        return Range.exactly(float(work.max_steps))
    if work.epochs is None or work.rows is None:
        return None
    rows = work.epochs * work.rows
    if not work.packing:
        return Range.exactly(float(max(1, math.ceil(rows / work.samples))))
    if not work.row_bytes:
        return None
    tokens = Range.exactly(rows * work.row_bytes).over(BYTES_PER_TOKEN)
    steps = tokens.over(tokens_per_row(work)).times(1 / work.samples)
    return Range(max(1.0, steps.low), max(1.0, steps.middle), max(1.0, steps.high))


def estimate_step(work: Work, speed: Speed) -> Range:
    """Estimate the seconds of a step."""
    if speed.samples_per_s is not None:
        return Range.exactly(float(work.samples)).over(speed.samples_per_s)
    return tokens_per_row(work).times(work.samples).over(speed.tokens_per_s)


def estimate_start(work: Work) -> Range:
    """Estimate the seconds from the launch to the first step, without a queue."""
    parts = [LOADING_S, BUILDING_S] if work.builds else [LOADING_S]
    if work.sent_bytes:
        parts.append(Range.exactly(float(work.sent_bytes)).over(SENDING_BYTES_PER_S))
    if work.fetched_bytes:
        parts.append(Range.exactly(float(work.fetched_bytes)).over(FETCHING_BYTES_PER_S))
    return Range.total(parts)


def estimate_duration(work: Work, speed: Speed) -> Duration | None:
    """Estimate how long a training takes; None if the number of its steps is unknown."""
    steps, step = count_steps(work), estimate_step(work, speed)
    if steps is None:
        return None
    parts = {
        "start": estimate_start(work),
        "steps": Range(steps.low * step.low, steps.middle * step.middle, steps.high * step.high),
    }
    evaluations = 0.0
    if work.eval_rows != 0:  # None: there are some
        evaluations = 2.0 + (steps.middle // work.eval_every if work.eval_every else 0.0)
    if evaluations and speed.eval_s is not None:
        parts["evaluations"] = Range.around(evaluations * speed.eval_s, 1.3)
    elif evaluations and work.eval_rows is not None:
        each = step.times(work.eval_rows / work.samples)
        once = Range(each.low * _EVALUATED.low, each.middle * _EVALUATED.middle, each.high * _EVALUATED.high)
        parts["evaluations"] = once.times(evaluations)
    saves = 1.0 + (steps.middle // work.save_every if work.save_every else 0.0)
    if work.save_bytes:
        parts["saves"] = Range.exactly(saves * work.save_bytes).over(SAVING_BYTES_PER_S)
    found = Duration(parts, steps, step)
    return found if found.total_s.is_sane else None


def estimate_cost(seconds: Range, price_per_hour: float) -> Range:
    """Return what so long costs, at what a run costs an hour."""
    return seconds.times(price_per_hour / 3600)
