"""Decide whether a sweep is done before its last cell: a target is reached, or time or money are spent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import ValidationError

from armada.config.sweep import Sweep
from armada.costs.price import money
from armada.errors import PreflightRefused
from armada.sweeps.standing import CellStanding, ranked

if TYPE_CHECKING:
    from collections.abc import Sequence

    from armada.config.hosts import Host
    from armada.config.sweep import StopRule
    from armada.costs.amounts import Amounts
    from armada.store.sweeps import SweepRecord


def settings_of(record: SweepRecord) -> Sweep:
    """The settings of a recorded sweep; empty ones if a newer armada wrote what this one cannot read."""
    told = record.settings.get("sweep")
    try:
        return Sweep.model_validate(told if isinstance(told, dict) else {}, strict=False)
    except ValidationError:
        return Sweep()


def why_stop(record: SweepRecord, cells: Sequence[CellStanding], cost: Amounts | None, now: float) -> str | None:
    """Return why the cells that are left are to be stopped; None if they are not.

    Args:
        record: The sweep.
        cells: With the values of its metric.
        cost: What all of its runs have cost; None if that is not known.
        now: Unix time.
    """
    settings = settings_of(record)
    rule = settings.stop
    best = next(iter(ranked(cells, settings.decided_goal)), None)
    if rule.target is not None and best is not None and best.value is not None:
        is_reached = best.value <= rule.target if settings.decided_goal == "min" else best.value >= rule.target
        if is_reached:
            return f"{best.run.run_id} reached {settings.metric} {best.value:g}, and the target is {rule.target:g}"
    if rule.hours is not None and now - record.created_at >= rule.hours * 3600:
        return f"its {rule.hours:g} h are over"
    if rule.cost is not None and cost is not None:
        limit, currency = rule.most
        for each, amount in cost.by_currency.items():
            if amount >= limit and currency in (None, each):
                return f"it has cost {money(amount, each)}, and may cost {money(limit, each)}"
    return None


def refuse_unkeepable(stop: StopRule, hosts: Sequence[Host], now: float) -> None:
    """Refuse a limit of the cost that could never be reached, because the cost is not known or in another currency.

    Args:
        stop: The rules of a sweep.
        hosts: Those that it may use.
        now: Unix time.

    Raises:
        PreflightRefused: It says which host, and what would be right.
    """
    if stop.cost is None:
        return
    _, wanted = stop.most
    currencies = dict[str, str]()
    for host in hosts:
        tariff = host.tariff()
        if tariff is None:
            raise PreflightRefused(
                f"`sweep.stop.cost` cannot be kept: no price of {host.name} is known",
                hint=f"armada hosts set {host.name} --price '12.40 EUR'; or sweep.stop.hours",
            )
        price = tariff.price_at(now) or tariff.prices[-1]
        if wanted not in (None, price.currency):
            raise PreflightRefused(
                f"`sweep.stop.cost` is in {wanted}, and the price of {host.name} is in {price.currency}: "
                "they are not compared",
                hint=f"give it in {price.currency}, or as sweep.stop.hours",
            )
        currencies.setdefault(price.currency, host.name)
    if len(currencies) > 1:
        both = " and ".join(f"{currency} ({host})" for currency, host in currencies.items())
        raise PreflightRefused(
            f"`sweep.stop.cost` cannot be kept: the prices are in {both}, which are not added",
            hint="hosts with prices in one currency, or sweep.stop.hours",
        )
