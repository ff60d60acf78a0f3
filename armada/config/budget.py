"""The `budget:` of an experiment: what a run may cost, or how long it may run, before it is stopped."""

from __future__ import annotations

from typing import Annotated, ClassVar, Self

from pydantic import Field, field_validator, model_validator

from armada.config.settings import FilledText, Settings, problem
from armada.costs.price import parse_money


class Budget(Settings):
    """What a run may use, over all of its attempts. At its end the run saves and stops; its checkpoints stay."""

    other_names: ClassVar[dict[str, str]] = {"money": "cost", "amount": "cost", "time": "hours"}

    cost: Annotated[float, Field(gt=0, le=1e9)] | FilledText | None = None
    """`20 EUR`, or a number in the currency of its host's price: the run's share of the host."""
    hours: Annotated[float, Field(gt=0, le=1e6)] | None = None
    """Hours of running, whatever they cost."""

    @property
    def most(self) -> tuple[float, str | None] | None:
        """The amount and its currency (None: that of the host's price); None without a limit of the cost."""
        if self.cost is None:
            return None
        return parse_money(self.cost) if isinstance(self.cost, str) else (self.cost, None)

    @field_validator("cost")
    @classmethod
    def _is_money(cls, value: float | str | None) -> float | str | None:
        if isinstance(value, str):
            try:
                amount, _ = parse_money(value)
            except ValueError as error:
                raise problem(str(error), hint="budget: {cost: 20 EUR}") from None
            if not amount:
                raise problem("must be more than 0")
        return value

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if self.cost is None and self.hours is None:
            raise problem("needs `cost` or `hours`", hint="budget: {cost: 20 EUR}")
        return self
