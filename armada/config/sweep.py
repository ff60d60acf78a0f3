"""The `sweep:` part of an experiment: which settings its cells vary, how many run at once, and when to stop."""

from __future__ import annotations

import itertools
import math
import re
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator

from armada.config.documents import shown
from armada.config.settings import FilledText, Settings, problem
from armada.costs.price import parse_money
from armada.foundation.metric_goals import Goal

Count = Annotated[int, Field(ge=1, lt=2**31)]

_KEY = re.compile(r"[^\s.]+(\.[^\s.]+)*")
_LARGEST_WHOLE = 2**63
_LARGEST = 1e300
"""The logarithm of a larger number may have a power that is no number."""
MOST_AT_ONCE = 1000
"""Trials of a search under way at once."""

_NOT_SWEPT = ("task", "sweep", "name")


class Interval(Settings):
    """An interval to draw numbers from. Whole numbers as ends draw whole numbers, unless the setting takes fractions."""

    min: int | float
    """The least value."""
    max: int | float
    """The largest value."""
    scale: Literal["linear", "log"] = "linear"
    """`log` draws each power of ten equally often, as learning rates want."""
    text: bool = False
    """Write the numbers as text. armada does so by itself where the setting is text: `env.RATE`, `arguments.2`."""

    @model_validator(mode="after")
    def _is_an_interval(self) -> Self:
        for key, end in (("min", self.min), ("max", self.max)):
            if not abs(end) < (_LARGEST_WHOLE if isinstance(end, int) else _LARGEST):
                raise problem("is too large to draw from", key=key)
        if not self.min < self.max:
            raise problem(f"must be more than `min`, {self.min}", key="max")
        if self.scale == "log" and self.min <= 0:
            raise problem("must be more than 0 with `scale: log`", key="min")
        return self

    @property
    def is_whole(self) -> bool:
        """Whether both ends are written as whole numbers."""
        return isinstance(self.min, int) and isinstance(self.max, int)


Choices = Annotated[tuple[Any, ...], Field(strict=False, min_length=1)]


def _check_key(key: str) -> None:
    if not _KEY.fullmatch(key):
        raise problem(f"{shown(key)} is not a key", hint="write the way to a setting: train.learning_rate")
    if key.partition(".")[0] in _NOT_SWEPT:
        raise problem(f"`{key}` cannot differ between cells", hint="write another experiment for that")


def _check_choices(key: str, values: tuple[Any, ...]) -> None:
    seen = set[str]()
    for value in values:
        if isinstance(value, float) and not math.isfinite(value):
            raise problem(f"`{key}`: {value} is not a finite number")
        if repr(value) in seen:
            raise problem(f"`{key}` has {shown(value)} twice")
        seen.add(repr(value))


def check_space(space: dict[str, Choices | Interval]) -> dict[str, Choices | Interval]:
    """Check the settings to draw from, and their values.

    Raises:
        PydanticCustomError: There is none, or one is wrong.
    """
    if not space:
        raise problem("needs at least one setting", hint="space: {train.learning_rate: {min: 1e-6, max: 1e-4}}")
    for key, values in space.items():
        _check_key(key)
        if not isinstance(values, Interval):
            _check_choices(key, values)
    return space


class RandomCells(Settings):
    """Cells with values drawn at random."""

    other_names: ClassVar[dict[str, str]] = {"count": "n", "trials": "n", "samples": "n", "parameters": "space"}

    n: Count
    """How many cells."""
    seed: Annotated[int, Field(ge=0, lt=2**31)] = 0
    """The same seed draws the same cells."""
    space: dict[str, Choices | Interval] = Field(default_factory=dict)
    """For each setting a list of values, or `{min: 1e-6, max: 1e-4, scale: log}`."""

    @field_validator("space")
    @classmethod
    def _has_keys(cls, value: dict[str, Choices | Interval]) -> dict[str, Choices | Interval]:
        return check_space(value)


class SearchCells(Settings):
    """Cells that Optuna chooses one after the other, by how well former ones did."""

    other_names: ClassVar[dict[str, str]] = {"n": "trials", "n_trials": "trials", "parameters": "space"}

    trials: Annotated[int, Field(ge=1, le=10_000)]
    """How many cells in all."""
    at_once: Annotated[int, Field(ge=1, le=MOST_AT_ONCE)] | None = None
    """How many of them are under way at once; by default `parallel`, else 4. With fewer, each is chosen by more results."""
    seed: Annotated[int, Field(ge=0, lt=2**31)] = 0
    """Another seed begins with other cells."""
    space: dict[str, Choices | Interval] = Field(default_factory=dict)
    """For each setting a list of values, or `{min: 1e-6, max: 1e-4, scale: log}`."""

    @field_validator("space")
    @classmethod
    def _has_keys(cls, value: dict[str, Choices | Interval]) -> dict[str, Choices | Interval]:
        return check_space(value)


class StopRule(Settings):
    """When the cells that are left are stopped."""

    target: float | None = None
    """A value of `metric` that is good enough."""
    hours: Annotated[float, Field(gt=0, le=1e6)] | None = None
    """Hours since the sweep began."""
    cost: Annotated[float, Field(gt=0, le=1e9)] | FilledText | None = None
    """What all cells together may cost: `20 EUR`, or a number in whichever currency the hosts have."""

    @property
    def most(self) -> tuple[float, str | None]:
        """The limit of the cost and its currency; None for any."""
        if isinstance(self.cost, str):
            return parse_money(self.cost)
        return (self.cost if self.cost is not None else math.inf), None

    @field_validator("cost")
    @classmethod
    def _is_money(cls, value: float | str | None) -> float | str | None:
        if isinstance(value, str):
            try:
                limit, _ = parse_money(value)
            except ValueError as error:
                raise problem(str(error)) from None
            if not limit:
                raise problem("must be more than 0")
        return value


class PruneRule(Settings):
    """Which cells are stopped early: those that do badly at given steps (asynchronous successive halving, ASHA)."""

    other_names: ClassVar[dict[str, str]] = {
        "steps": "at",
        "rungs": "at",
        "reduction_factor": "reduction",
        "eta": "reduction",
    }

    at: Annotated[tuple[Annotated[int, Field(ge=1, lt=2**53)], ...], Field(strict=False, min_length=1, max_length=50)]
    """The steps at which cells are compared by `metric`: `[500, 1000, 2000]`."""
    reduction: Annotated[int, Field(ge=2, le=100)] = 3
    """One of so many continues: 3 keeps the best third at each of the steps."""

    @field_validator("at")
    @classmethod
    def _ascends(cls, value: tuple[int, ...]) -> tuple[int, ...]:
        if any(later <= former for former, later in itertools.pairwise(value)):
            raise problem("must ascend", hint="at: [500, 1000, 2000]")
        return value


class Sweep(Settings):
    """Which cells a sweep has: those listed, those of the grid, and those drawn at random, in this order."""

    other_names: ClassVar[dict[str, str]] = {"parameters": "grid", "max_parallel": "parallel", "direction": "goal"}

    grid: dict[str, Choices] = Field(default_factory=dict)
    """For each setting a list of values: every combination is a cell. `{train.learning_rate: [1e-5, 3e-5]}`."""
    random: RandomCells | None = None
    """Cells with values drawn at random."""
    cells: Annotated[tuple[dict[str, Any], ...], Field(strict=False)] = ()
    """Cells one by one: `[{train.learning_rate: 1e-5, train.seed: 3}]`."""
    search: SearchCells | None = None
    """Instead of the others: cells that Optuna chooses by the `metric` of former ones."""
    parallel: Count | None = None
    """How many cells run at once on all hosts together; by default as many as the hosts have GPUs for."""
    metric: FilledText | None = None
    """What cells are compared by, such as `eval_loss`."""
    goal: Literal["min", "max"] | None = None
    """Whether a small or a large `metric` is good; needed only where neither `train.best_metric` nor its name says so."""
    stop: StopRule = StopRule()
    """When the cells that are left are stopped."""
    prune: PruneRule | None = None
    """Stops cells that do badly at given steps: `{at: [500, 1000, 2000], reduction: 3}`."""

    @property
    def decided_goal(self) -> Goal:
        """The goal; `min` where it is open, as in what former releases recorded."""
        return self.goal or "min"

    @field_validator("grid")
    @classmethod
    def _grid_has_keys(cls, value: dict[str, tuple[Any, ...]]) -> dict[str, tuple[Any, ...]]:
        for key, values in value.items():
            _check_key(key)
            _check_choices(key, values)
        return value

    @field_validator("cells")
    @classmethod
    def _cells_have_keys(cls, value: tuple[dict[str, Any], ...]) -> tuple[dict[str, Any], ...]:
        for index, cell in enumerate(value):
            if not cell:
                raise problem(f"cell {index + 1} changes nothing", hint="- {train.learning_rate: 1e-5}")
            for key in cell:
                _check_key(key)
        return value

    @model_validator(mode="after")
    def _target_has_a_metric(self) -> Self:
        if self.stop.target is not None and self.metric is None:
            raise problem("needs `metric`, what it is the target of", key="stop")
        return self

    @model_validator(mode="after")
    def _prunes_by_a_metric(self) -> Self:
        if self.prune is not None and self.metric is None:
            raise problem(
                "needs `metric`, by which cells are compared", key="prune", hint="--set sweep.metric=eval_loss"
            )
        return self

    @model_validator(mode="after")
    def _searches_alone_and_by_a_metric(self) -> Self:
        if self.search is None:
            return self
        if self.grid or self.random is not None or self.cells:
            raise problem("cannot stand beside `grid`, `random` or `cells`", key="search", hint="sweep.search alone")
        if self.metric is None:
            raise problem(
                "needs `metric`, by which cells are chosen", key="search", hint="--set sweep.metric=eval_loss"
            )
        return self
