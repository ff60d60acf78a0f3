"""A quantity that is known only between two bounds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_MOST = 1e15


@dataclass(frozen=True, slots=True)
class Range:
    """The expected value of a quantity, and the bounds between which it probably is."""

    low: float
    middle: float
    high: float

    @classmethod
    def around(cls, middle: float, factor: float) -> Range:
        """Return the range from `middle / factor` to `middle * factor`."""
        return cls(middle / factor, middle, middle * factor)

    @classmethod
    def exactly(cls, value: float) -> Range:
        return cls(value, value, value)

    @classmethod
    def total(cls, parts: Iterable[Range]) -> Range:
        """Return the sum of quantities, bounds included."""
        found = list(parts)
        return cls(sum(p.low for p in found), sum(p.middle for p in found), sum(p.high for p in found))

    def times(self, factor: float) -> Range:
        return Range(self.low * factor, self.middle * factor, self.high * factor)

    def over(self, other: Range) -> Range:
        """Divide by another quantity: the lowest is the lowest by the highest."""
        return Range(self.low / other.high, self.middle / other.middle, self.high / other.low)

    @property
    def is_sane(self) -> bool:
        """Whether the bounds are finite, in order and at least 0: recorded figures come from hosts."""
        values = (self.low, self.middle, self.high)
        return all(math.isfinite(value) and 0 <= value < _MOST for value in values) and list(values) == sorted(values)

    def as_json(self) -> dict[str, float]:
        return {"low": self.low, "middle": self.middle, "high": self.high}
