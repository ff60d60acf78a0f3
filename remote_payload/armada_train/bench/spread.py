"""By how much a second bench on this machine differs, in 19 of 20 cases: the spread that a bench states.

Each part is the 95 % interval of a difference of two means, as a share of a mean: sqrt(2) because both benches err, and
Student's t because the deviation itself is estimated from few values:

    sqrt(2) * t(0.975, values - means) * deviation / sqrt(values of one mean)

The spread is the largest of three parts. `steps` compares up to ten blocks of neighbouring steps of the cell, so it
notices what is shorter than a turn. `turns` compares the turns of each cell with the cell's mean, for all cells
together: one cell has too few turns for an estimate of its own, and what makes turns differ is the machine that all
cells share. `machine` compares the timings of the machine's own product beside all turns, in the order of time. These
follow each other, so they count as fewer values, `n * (1 - r) / (1 + r)` with their correlation `r` from each to the
next: a machine that drifts through a whole bench has told little about where it will be in the next.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from armada_train.bench.turns import Turn
from armada_train.training.step_times import describe_steps, t_95

_LEAST_VALUES = 2.0


@dataclass(frozen=True)
class Spread:
    """A cell's spread, as a share of its speed.

    Attributes:
        steps: Of blocks of steps.
        turns: Of the turns of all cells; 0 if no cell has two.
        machine: Of the machine's own product.
        varied: By how much the machine's own speed varied between turns: the fastest over the slowest, less 1.
    """

    steps: float
    turns: float
    machine: float
    varied: float

    @property
    def whole(self) -> float:
        return max(self.steps, self.turns, self.machine)


def spreads(cells: Mapping[int, Sequence[Turn]], machines: Mapping[int, object]) -> dict[int, Spread]:
    """Return the spread of each cell.

    Args:
        cells: The turns of each cell that has any.
        machines: What of the machine a cell uses: only the products of equal ones are compared.
    """
    logs = {number: [math.log(turn.speed) for turn in done if turn.speed > 0] for number, done in cells.items()}
    deviation, freedom = _pooled(list(logs.values()))
    drifts = {
        machine: _drift([turn for number, done in cells.items() if machines[number] == machine for turn in done])
        for machine in set(machines.values())
    }
    found = {}
    for number, done in cells.items():
        turns = interval(deviation, freedom, len(done)) if freedom else 0.0
        steps = describe_steps([step for turn in done for step in turn.steps_s])["spread"]
        found[number] = Spread(steps, turns, *drifts[machines[number]])
    return found


def interval(deviation: float, freedom: float, values: float) -> float:
    """Return the 95 % interval of the difference of two means of so many values."""
    return math.sqrt(2) * t_95(freedom) * deviation / math.sqrt(values)


def _pooled(groups: Sequence[Sequence[float]]) -> tuple[float, int]:
    """Return the deviation within groups, and its degrees of freedom."""
    freedom = sum(len(group) - 1 for group in groups if group)
    squares = math.fsum((value - statistics.fmean(group)) ** 2 for group in groups for value in group)
    return (math.sqrt(squares / freedom), freedom) if freedom else (0.0, 0)


def _drift(turns: Sequence[Turn]) -> tuple[float, float]:
    """Return the interval of the machine's own speed over a bench, and by how much it varied."""
    ordered = sorted((turn for turn in turns if turn.product_s), key=lambda turn: turn.at)
    logs = [-math.log(turn.product_s or 1.0) for turn in ordered]
    if len(logs) < 2:
        return 0.0, 0.0
    mean = statistics.fmean(logs)
    square = math.fsum((each - mean) ** 2 for each in logs)
    if square <= 0:
        return 0.0, 0.0
    follows = math.fsum((one - mean) * (two - mean) for one, two in itertools.pairwise(logs)) / square
    values = len(logs) * (1 - max(0.0, follows)) / (1 + max(0.0, follows))
    values = max(_LEAST_VALUES, values)
    deviation = math.sqrt(square / (len(logs) - 1))
    return interval(deviation, values - 1, values), math.exp(max(logs) - min(logs)) - 1
