"""Sums of money by currency. Two currencies are never added, and what is unknown is not zero."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from armada.costs.price import money
from armada.units import span


class Amounts(NamedTuple):
    """An amount for each currency.

    Attributes:
        by_currency: Amounts.
        unknown_s: Seconds of use that are in no amount, because no price is known for them.
    """

    by_currency: Mapping[str, float] = MappingProxyType({})
    unknown_s: float = 0.0

    @property
    def single(self) -> tuple[float, str] | None:
        """The amount and its currency; None if nothing is known, or there are several currencies."""
        found = [(amount, currency) for currency, amount in self.by_currency.items()]
        return found[0] if len(found) == 1 else None

    @property
    def is_known(self) -> bool:
        """Whether any price was known."""
        return bool(self.by_currency)

    def text(self, *, rough: bool = False) -> str:
        """`$4.20`, `4.20 EUR and $1.00`, `4.20 EUR and 2 h without a price`; empty if nothing is known.

        Args:
            rough: Without cents, from 10 on.
        """
        if not self.by_currency:
            return ""
        some = [(currency, amount) for currency, amount in sorted(self.by_currency.items()) if amount]
        parts = [
            money(amount, currency, rough=rough) for currency, amount in some or list(self.by_currency.items())[:1]
        ]
        if self.unknown_s >= 1.0:
            parts.append(f"{span(self.unknown_s)} without a price")
        return " and ".join(parts) if len(parts) < 3 else f"{', '.join(parts[:-1])} and {parts[-1]}"

    def as_json(self) -> dict[str, float] | None:
        """The amounts by currency; None if nothing is known."""
        return dict(sorted(self.by_currency.items())) if self.by_currency else None

    def less(self, other: Amounts) -> Amounts:
        """Return the rest after another sum, in each currency; never below zero."""
        left = {
            currency: max(0.0, amount - other.by_currency.get(currency, 0.0))
            for currency, amount in self.by_currency.items()
        }
        return Amounts(left, max(0.0, self.unknown_s - other.unknown_s))


def total(found: Iterable[Amounts]) -> Amounts:
    """Add sums, each currency by itself."""
    parts: dict[str, list[float]] = {}
    unknown = []
    for each in found:
        unknown.append(each.unknown_s)
        for currency, amount in each.by_currency.items():
            parts.setdefault(currency, []).append(amount)
    return Amounts({currency: math.fsum(amounts) for currency, amounts in parts.items()}, math.fsum(unknown))
