"""Prices of a host, as hosts.yaml has them: `price: 2.50 EUR per gpu`, or a list with the time each became valid."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from pydantic import AfterValidator

from armada.config.documents import shown
from armada.config.settings import FilledText, Settings, problem
from armada.costs.allowance import PATTERN as ALLOWANCE
from armada.costs.allowance import Allowance, Unit
from armada.costs.price import Price, parse_money, parse_price

_EXAMPLE = "price: 12.40 EUR, or 2.50 EUR per gpu"


def _checked_price(text: str) -> str:
    try:
        parse_price(text)
    except ValueError as error:
        raise problem(str(error), hint=_EXAMPLE) from None
    return text


def _checked_moment(text: str) -> str:
    moment_of(text)
    return text


def moment_of(text: str) -> float:
    """Read a date or time, as of this machine's clock if it names no zone: `2026-06-01`, `2026-06-01T08:00`.

    Returns:
        Unix time.

    Raises:
        PydanticCustomError: It is neither.
    """
    try:
        return datetime.fromisoformat(text.strip()).timestamp()
    except (ValueError, OverflowError, OSError):
        raise problem(f"{shown(text)} is not a date such as 2026-06-01 or 2026-06-01T08:00") from None


def checked_money(text: str) -> str:
    """Check that a text is an amount of money that is not zero."""
    try:
        amount, _ = parse_money(text)
    except ValueError as error:
        raise problem(str(error), hint="budget: 100 EUR") from None
    if not amount:
        raise problem("must be more than 0")
    return text


def allowance_of(text: str) -> Allowance:
    """Read an allowance: `5000 gpu-hours`, `800 node-hours since 2026-01-01`.

    Raises:
        PydanticCustomError: It is none.
    """
    found = ALLOWANCE.fullmatch(text.strip())
    if found is None or not float(found[1]):
        raise problem(f"{shown(text)} is not an allowance such as 5000 gpu-hours, or 800 node-hours since 2026-01-01")
    unit: Unit = "gpu-hours" if found[2] == "gpu" else "node-hours"
    return Allowance(float(found[1]), unit, moment_of(found[3]) if found[3] else None)


def checked_allowance(text: str) -> str:
    """Check that a text is an allowance."""
    allowance_of(text)
    return text


class PriceSince(Settings):
    """A price per hour, and since when it is valid."""

    price: Annotated[FilledText, AfterValidator(_checked_price)]
    """`12.40 EUR` for the whole box, `2.50 EUR per gpu` for each GPU; without a currency, dollars."""
    since: Annotated[FilledText, AfterValidator(_checked_moment)] | None = None
    """A date or a time; the first price of a host may leave it out: it was always valid."""

    @property
    def read(self) -> Price:
        """The price."""
        return parse_price(self.price, moment_of(self.since) if self.since is not None else None)


def listed_prices(value: Any) -> Any:
    """Return a price that is written as text or as a number as a list of one price; a list as it is.

    Raises:
        PydanticCustomError: The text is no price.
    """
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = f"{value:.12f}".rstrip("0").rstrip(".") if abs(value) < 1e12 else str(value)
    if not isinstance(value, str):
        return value
    try:
        parse_price(value)
    except ValueError as error:
        raise problem(str(error), key="price", hint=_EXAMPLE) from None
    return [{"price": value}]


def check_order(found: tuple[PriceSince, ...]) -> None:
    """Check that prices are in the order in which they became valid.

    Raises:
        PydanticCustomError: They are not.
    """
    former: float | None = None
    for number, each in enumerate(found):
        since = moment_of(each.since) if each.since is not None else None
        if number and since is None:
            raise problem(f"{shown(each.price)} needs `since`: only the first price may leave it out", key="price")
        if former is not None and since is not None and since <= former:
            raise problem(f"{shown(each.price)} must be valid later than the price before it", key="price")
        former = since


def plain_prices(found: tuple[PriceSince, ...]) -> Any:
    """Return prices as a file has them: a text where one price is all."""
    if len(found) == 1 and found[0].since is None:
        return found[0].price
    return [each.model_dump(exclude_none=True) for each in found] or None
