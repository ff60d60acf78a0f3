"""A price per hour with its currency, for a whole box or for each GPU, and the time from which it is valid."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

Per = Literal["box", "gpu"]

DOLLARS = "USD"
"""The currency of a price without one: `price_per_hour: 14.4` always meant dollars."""

MOST = 1e9
"""An upper bound for an amount of money."""

_SIGNS = {"$": "USD", "€": "EUR", "£": "GBP"}
# Text, because the first paint of the dashboard needs none of them, and `re` remembers what it compiled.
_AMOUNT = r"(?a:(?P<sign>[$€£])? ?(?P<amount>[0-9]{1,12}(?:\.[0-9]{1,12})?) ?(?P<currency>[A-Z]{3}|[€£$])?)"
_PER = r"(?ai:(?P<per>gpu|box|host|node)|(?P<time>h|hour))"
_SEPARATOR = r"(?i: ?/ ?| per )"


class Price(NamedTuple):
    """What an hour costs.

    Attributes:
        amount: Of the currency.
        currency: Three capitals: EUR.
        per: The whole box, whoever uses it, or each GPU.
        valid_from: Unix time; None: always, or before any other price.
    """

    amount: float
    currency: str = DOLLARS
    per: Per = "box"
    valid_from: float | None = None

    @property
    def text(self) -> str:
        """`$14.40/h`, `2.50 EUR/GPU/h`."""
        return f"{money(self.amount, self.currency)}{'/GPU' if self.per == 'gpu' else ''}/h"

    @property
    def written(self) -> str:
        """The price as a file has it: `2.5 EUR per gpu`."""
        return f"{_plain(self.amount)} {self.currency}{' per gpu' if self.per == 'gpu' else ''}"


def parse_money(text: str) -> tuple[float, str]:
    """Read an amount of money: `20 EUR`, `$4.50`, `12`.

    Returns:
        The amount and its currency; dollars if it names none.

    Raises:
        ValueError: It is no amount of money; the message says what is.
    """
    found = re.fullmatch(_AMOUNT, text.strip())
    if found is None or (found["sign"] and found["currency"]):
        raise ValueError(f"{text[:60]!r} is not an amount of money such as `20 EUR` or `4.50 USD`")
    amount = float(found["amount"])
    if amount > MOST:
        raise ValueError(f"{text[:60]!r} is more than {MOST:,.0f}")
    named = found["sign"] or found["currency"]
    return amount, _SIGNS.get(named, named) if named else DOLLARS


def parse_price(text: str, valid_from: float | None = None) -> Price:
    """Read a price per hour: `12.40`, `12.40 EUR`, `2.50 USD per gpu`, `$2.50/gpu/h`.

    Args:
        text: As written.
        valid_from: Unix time.

    Raises:
        ValueError: It is no price; the message says what is.
    """
    first, *parts = re.split(_SEPARATOR, text.strip())
    per: Per = "box"
    matches = [re.fullmatch(_PER, part.strip()) for part in parts]
    if None in matches or len(parts) > 2:
        raise ValueError(f"{text[:60]!r} is not a price such as `12.40 EUR` or `2.50 EUR per gpu`")
    for match in matches:
        if match is not None and match["per"] and match["per"].lower() == "gpu":
            per = "gpu"
    try:
        amount, currency = parse_money(first)
    except ValueError:
        raise ValueError(f"{text[:60]!r} is not a price such as `12.40 EUR` or `2.50 EUR per gpu`") from None
    return Price(amount, currency, per, valid_from)


def money(amount: float, currency: str = DOLLARS, *, rough: bool = False) -> str:
    """`$4.20`, `$1,234`, `4.20 EUR`; rough: from 10 on, without cents."""
    figure = f"{amount:,.0f}" if amount >= (10 if rough else 1000) else f"{amount:,.2f}"
    return f"${figure}" if currency == DOLLARS else f"{figure} {currency}"


def _plain(amount: float) -> str:
    return f"{amount:.12f}".rstrip("0").rstrip(".")
