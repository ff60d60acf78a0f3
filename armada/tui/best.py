"""Which value of several runs is the best, and by which metric: each run says so itself, and they may not agree."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from armada.foundation.metric_goals import BestBy
from armada.foundation.sanitize import sanitize_line
from armada.store.queries.facts import read_bests

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from armada.store.database import Database
    from armada.store.queries.facts import RunBest
    from armada.tui.snapshot import RunRow

Wanted: TypeAlias = Literal["", "sweeps", "all"]
"""Of which runs it is needed how good they are: of none, of cells of sweeps, of all."""
LOSS = "loss"
EVAL_LOSS = BestBy()
LONGEST = 40


class Best(NamedTuple):
    """The best value of several runs, and its metric, sanitized; or why there is none."""

    metric: str
    value: float | None
    why: str = ""

    @property
    def words(self) -> str:
        """`best eval_loss 0.41`, or `best: differs`."""
        return f"best: {self.why}" if self.value is None else f"best {self.metric} {self.value:.4g}"


class Standing(NamedTuple):
    """How a run stands among others.

    Attributes:
        value: Of their metric; None where that is the loss, which has a column of its own.
        is_best: No other value is better.
    """

    value: float | None
    is_best: bool


class Ranking(NamedTuple):
    """Several runs by the metric that they name.

    Attributes:
        by: The metric.
        values: One for each run that has it; there is at least one.
    """

    by: BestBy
    values: Mapping[str, float]

    @property
    def best(self) -> float:
        return min(self.values.values(), key=self.by.rank)

    def rank(self, run_id: str) -> float:
        """Return a number that is lower the better a run is; runs without a value are last."""
        return self.by.rank(self.values[run_id]) if run_id in self.values else math.inf

    def standings(self) -> dict[str, Standing]:
        """Return how each run with a value stands."""
        best = self.best
        return {
            run_id: Standing(None if self.by.name == LOSS else value, value == best)
            for run_id, value in self.values.items()
        }


DIFFERS = Best("", None, "differs")
"""The runs name different metrics."""
READING = Best("", None, "…")


def best_of(rows: Iterable[RunRow], bests: Mapping[str, RunBest]) -> Best | None:
    """Return the best value of several runs; None if none of them has one."""
    return best_among(ranking_of(rows, bests))


def best_among(found: Ranking | Best | None) -> Best | None:
    """Return the best value of runs that are ranked, or why they are not."""
    return Best(sanitize_line(found.by.name, LONGEST), found.best) if isinstance(found, Ranking) else found


def ranking_of(rows: Iterable[RunRow], bests: Mapping[str, RunBest]) -> Ranking | Best | None:
    """Return the values of several runs by their metric, or why they cannot be ranked; None if none of them has one.

    It is the metric that they name. Those that name none take the evaluation loss if one of them has it, and else the
    loss, of which each run's newest value counts.
    """
    stated: set[BestBy] = set()
    plain: list[RunRow] = []
    values: dict[str, float] = {}
    losses: dict[str, float] = {}
    for row in rows:
        found = bests.get(row.id)
        if found is None:
            return READING
        loss = row.run.loss if row.run.loss is not None and math.isfinite(row.run.loss) else None
        if found.stated is not None:
            stated.add(found.stated)
        elif found.value is not None or loss is not None:
            plain.append(row)
        if loss is not None:
            losses[row.id] = loss
        if found.value is not None:
            values[row.id] = found.value
    if len(stated) > 1 or (stated and plain and stated != {EVAL_LOSS}):
        return DIFFERS
    by = next(iter(stated), EVAL_LOSS if values else BestBy(LOSS))
    known = losses if by.name == LOSS else values
    return Ranking(by, known) if known else None


class BestReader:
    """Reads how good runs are, and keeps it until they change.

    Args:
        database: The store.

    Attributes:
        bests: Of the runs of which it is wanted.
        version: Rises when it was read for all of them, not only for those that changed.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._read: Wanted = ""
        self._generation = -1
        self._stale: dict[str, RunRow] | None = None
        """The runs that changed since they were read; None: any may have."""
        self.bests: dict[str, RunBest] = {}
        self.version = 0

    def read(
        self, wanted: Wanted, rows: Sequence[RunRow], generation: int, changed: Mapping[str, RunRow] | None
    ) -> None:
        """Read what changed. What was read stays while nobody wants it, for who comes back.

        Args:
            wanted: Of which runs.
            rows: All runs.
            generation: Of the runs; see `Snapshot.generation`.
            changed: The runs that differ from the generation before; None if any may.
        """
        if generation != self._generation:
            follows = generation == self._generation + 1 and changed is not None and self._stale is not None
            self._stale = {**(self._stale or {}), **(changed or {})} if follows else None
            self._generation = generation
        if not wanted:
            return
        if wanted != self._read or self._stale is None:
            self.bests = self._of(wanted, rows)
            self.version += 1
        elif self._stale:
            self.bests = {**self.bests, **self._of(wanted, self._stale.values())}
        self._read, self._stale = wanted, {}

    def _of(self, wanted: Wanted, rows: Iterable[RunRow]) -> dict[str, RunBest]:
        ids = [row.id for row in rows if wanted == "all" or row.run.sweep]
        return read_bests(self._database, ids) if ids else {}
