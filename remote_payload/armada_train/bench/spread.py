"""By how much a second bench on this machine differs, in 19 of 20 cases: the spread that a bench states.

Each part is the 95 % interval of the difference of two means, as a share of a mean. The factor sqrt(2) is there because
both err, Student's t because the deviation itself is estimated from few values:

    sqrt(2) * t(0.975, values - means) * deviation / sqrt(values of one mean)

`steps` compares up to ten blocks of neighbouring steps of the cell: it notices what is shorter than a turn. `turns`
compares the turns of each cell with the cell's mean, for all cells together: one cell has too few turns for an estimate
of its own, and what makes turns differ is the machine, which all cells share. `machine` compares the timings of the
machine's own product, a mean for each turn of all cells: it knows what another turn would have met, also where each cell
has one turn. Turns follow each other, so n of them, whose correlation from each to the next is r, count as
`n * (1 - r) / (1 + r)` for the degrees of freedom, which are at least 2; and the turns of a cell, which are `cells`
places apart, as `turns * (1 - r**cells) / (1 + r**cells)`.

Two questions are answered, each with the root of `steps**2 + max(turns, machine)**2`. Beside the other cells, which had
the machine at the same time, the mean of a cell is that of all its turns. A bench at another time meets another machine:
in it, all turns of all cells may be as slow as any one was here, so the mean counts as one turn. What no bench can know
is the speed of a machine that it never met: one that is slower the whole day than in any turn of the first bench.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from armada_train.bench.turns import Turn
from armada_train.training.step_times import describe_steps, t_95

_LEAST_FREEDOM = 3
"""Of turns: with less, t is above 4 and says nothing; the machine's own product then says it alone."""

_ENOUGH = 8
"""Of turns, to say alone how cells compare: the product's tenth of a second is less steady than seconds of steps."""

_LEAST_DRIFT = 2.0
"""The same of the product, whose correlation is only estimated: with 1, t is 12.7. In simulations 2 covers as much."""


@dataclass(frozen=True)
class MeanInterval:
    """The interval of a mean of values beside other means of the same time, and beside one of another time.

    Attributes:
        deviation: Of the values, as a share.
        freedom: The degrees of freedom of that estimate.
        values: As how many independent ones those of the mean count.
    """

    deviation: float
    freedom: float
    values: float

    @property
    def now(self) -> float:
        return interval(self.deviation, self.freedom, self.values)

    @property
    def later(self) -> float:
        return interval(self.deviation, self.freedom, 1)


NONE = MeanInterval(0.0, 1.0, 1.0)


@dataclass(frozen=True)
class Spread:
    """A cell's spread, as a share of its speed.

    Attributes:
        steps: Of blocks of steps.
        turns: Of the turns of all cells; `NONE` if there are too few.
        machine: Of the machine's own product.
        varied: By how much the machine's own speed varied between turns: the fastest over the slowest, less 1.
    """

    steps: float
    turns: MeanInterval
    machine: MeanInterval
    varied: float

    @property
    def whole(self) -> float:
        """For a second bench, at another time."""
        return math.hypot(self.steps, max(self.turns.later, self.machine.later))

    @property
    def beside(self) -> float:
        """For the other cells of this bench, which had the same machine at the same time."""
        few = self.turns.freedom < _ENOUGH
        return math.hypot(self.steps, max(self.turns.now, self.machine.now) if few else self.turns.now)

    def told(self) -> dict[str, float]:
        """Return the figures of a row."""
        return {"spread": self.whole, "spread_beside": self.beside, "machine_varied": self.varied}


def spreads(cells: Mapping[int, Sequence[Turn]], machines: Mapping[int, object]) -> dict[int, Spread]:
    """Return the spread of each cell.

    Args:
        cells: The turns of each cell that has any.
        machines: What of the machine a cell uses: only the products of equal ones are compared.
    """
    logs = {number: [math.log(turn.speed) for turn in done if turn.speed > 0] for number, done in cells.items()}
    deviation, freedom = _pooled(list(logs.values()))
    found = {}
    for number, done in cells.items():
        machine = machines[number]
        together = [each for other, each in cells.items() if machines[other] == machine]
        steps = describe_steps([step for turn in done for step in turn.steps_s])["spread"]
        turns = MeanInterval(deviation, freedom, len(done)) if freedom >= _LEAST_FREEDOM else NONE
        found[number] = Spread(steps, turns, *_machine_part(together, len(done)))
    return found


def interval(deviation: float, freedom: float, values: float) -> float:
    """Return the 95 % interval of the difference of two means of so many values."""
    return math.sqrt(2) * t_95(freedom) * deviation / math.sqrt(values)


def _pooled(groups: Sequence[Sequence[float]]) -> tuple[float, int]:
    """Return the deviation within groups, and its degrees of freedom."""
    freedom = sum(len(group) - 1 for group in groups if group)
    squares = math.fsum((value - statistics.fmean(group)) ** 2 for group in groups for value in group)
    return (math.sqrt(squares / freedom), freedom) if freedom else (0.0, 0)


def _machine_part(cells: Sequence[Sequence[Turn]], turns: int) -> tuple[MeanInterval, float]:
    """Return the intervals from the machine's own product, for a cell with so many turns, and by how much it varied."""
    timed = sorted((turn.at, -math.log(turn.product_s)) for done in cells for turn in done if turn.product_s)
    logs = [value for _, value in timed]
    if len(logs) < 2:
        return NONE, 0.0
    mean = statistics.fmean(logs)
    square = math.fsum((each - mean) ** 2 for each in logs)
    if square <= 0:
        return NONE, 0.0
    follows = max(0.0, math.fsum((one - mean) * (two - mean) for one, two in itertools.pairwise(logs)) / square)
    deviation = math.sqrt(square / (len(logs) - 1))
    freedom = max(_LEAST_DRIFT, _independent(len(logs), follows) - 1)
    own = max(1.0, _independent(turns, follows ** len(cells)))
    return MeanInterval(deviation, freedom, own), math.exp(max(logs) - min(logs)) - 1


def _independent(values: int, follows: float) -> float:
    """Return as how many independent values those count whose correlation from each to the next is `follows`."""
    return values * (1 - follows) / (1 + follows)
