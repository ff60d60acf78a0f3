"""Decide whether a sweep is done before its last cell: a target is reached, or time or money are spent."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from pydantic import ValidationError

from armada.config.sweep import Sweep
from armada.costs.price import money
from armada.sweeps.standing import CellStanding, ranked

if TYPE_CHECKING:
    from collections.abc import Sequence

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
    best = next(iter(ranked(cells, settings.goal)), None)
    if rule.target is not None and best is not None and best.value is not None:
        is_reached = best.value <= rule.target if settings.goal == "min" else best.value >= rule.target
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


def why_no_more(record: SweepRecord, cells: Sequence[CellStanding], now: float) -> str | None:
    """Return why cells that are added now would be stopped at once; None if they would not. Its money is judged later."""
    settings = settings_of(record)
    rule = settings.stop.model_copy(update={"cost": None})
    kept = settings.model_copy(update={"stop": rule}).model_dump(mode="json")
    return why_stop(dataclasses.replace(record, settings={**record.settings, "sweep": kept}), cells, None, now)
