"""Say what a sweep may take, before any host is asked: hours and money."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from armada.costs.amounts import Amounts, total
from armada.units import counted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from armada.config.hosts import Host

ASK_ABOVE = 100
"""Cells: a sweep with more is confirmed by a person, or by --yes."""

_GUESS_S = 3600.0


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a sweep may take.

    Attributes:
        cells: How many there are.
        at_once: How many of them run at once.
        hours: From the first start to the last end.
        cost: Of the whole boxes, and of the cells on batch systems; None if no price is known.
        each_h: What one cell takes.
        is_limit: `each_h` is the time limit; otherwise it is only an example.
    """

    cells: int
    at_once: int
    hours: float
    cost: Amounts | None
    each_h: float
    is_limit: bool

    def words(self) -> str:
        """Say it in one sentence."""
        limit = f"With its time limit of {self.each_h:g} h a cell"
        each = limit if self.is_limit else f"If a cell takes {self.each_h:g} h"
        cost = f" and costs {self.cost.text()}" if self.cost is not None else "; no price of the hosts is known"
        return f"{each} and {self.at_once:,} run at once, it takes {self.hours:,.0f} h{cost}"


def room_on(gpus_there: int, cores: int, held: int | None, processes: int) -> int:
    """How many cells run at once on a host; at least 1.

    Args:
        gpus_there: Of the host, as far as that is known.
        cores: Of the host.
        held: GPUs of one cell; None for all.
        processes: Of one cell; they count for cells without GPUs.
    """
    if held is None and gpus_there:
        return 1
    return max(1, gpus_there // held if held else cores // max(1, processes))


def estimate(
    cells: int,
    hosts: Sequence[Host],
    at_once: int,
    time_limit_s: float | None,
    gpus: Mapping[str, int] | None = None,
    held: int | None = 0,
) -> Estimate:
    """Estimate the hours and the cost of a sweep. A box is paid for all of the hours, a batch system for each cell.

    Args:
        cells: How many.
        hosts: All that it may use.
        at_once: How many cells run at once on all hosts together.
        time_limit_s: Of one cell, if it has one.
        gpus: How many GPUs each host has, as far as that is known.
        held: GPUs of one cell; None for all.
    """
    each_h = (time_limit_s or _GUESS_S) / 3600
    hours = math.ceil(cells / max(1, at_once)) * each_h
    now = time.time()
    tariffs = [tariff for host in hosts if (tariff := host.tariff((gpus or {}).get(host.name))) is not None]
    parts = [
        tariff.cost_of_box([(now, now + hours * 3600)])
        if tariff.is_box
        else _times(tariff.cost_of_run(held or 0, [(now, now + each_h * 3600)]), cells / len(hosts))
        for tariff in tariffs
    ]
    cost = total(parts)
    known = cost if any(cost.by_currency.values()) else None
    return Estimate(cells, at_once, hours, known, each_h, time_limit_s is not None)


def _times(each: Amounts, count: float) -> Amounts:
    return Amounts({currency: amount * count for currency, amount in each.by_currency.items()}, each.unknown_s * count)


def question(title: str, found: Estimate) -> str:
    """The question before a large sweep."""
    return f"{title} has {counted(found.cells, 'cell')}. {found.words()}."
