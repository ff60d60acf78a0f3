"""What `Armada.costs` returns: frozen values. Amounts are by currency, because two currencies are never added."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from armada.foundation.sanitize import sanitize_line

if TYPE_CHECKING:
    from collections.abc import Mapping

    from armada.compare.costs import CostReport
    from armada.costs.report import HostCost


@dataclass(frozen=True, slots=True)
class HostCosts:
    """What a host cost, since it is rented or in one week.

    Attributes:
        host: Its name.
        since: From when it is counted; None if nothing was ever seen there.
        until: Until when.
        cost: What the box cost, by currency; for a cluster the sum of its runs. None without a price.
        runs: What runs used of it.
        unused: The GPUs that no run held while others ran.
        idle: The time without any run; None for a cluster, which nobody rents.
        idle_s: Seconds of that.
        unknown_s: Seconds that are in no amount, because no price is known for them.
        gpu_hours: GPUs held, times hours.
    """

    host: str
    since: float | None
    until: float
    cost: Mapping[str, float] | None
    runs: Mapping[str, float] | None
    unused: Mapping[str, float] | None
    idle: Mapping[str, float] | None
    idle_s: float
    unknown_s: float
    gpu_hours: float


@dataclass(frozen=True, slots=True)
class RunCosts:
    """What a run cost.

    Attributes:
        run_id: Its id.
        host: Where it ran.
        state: Its state.
        sweep: The sweep it is a cell of.
        seconds: How long it ran, all attempts together.
        gpu_hours: GPUs held, times hours.
        cost: Its share of the box, by currency; None without a price.
        unknown_s: Seconds that are in no amount.
        forecast: What it will have cost at its last step; None if the time or the price is not known.
        assumed: Its host does not answer: it is assumed that the run continues.
    """

    run_id: str
    host: str
    state: str
    sweep: str | None
    seconds: float
    gpu_hours: float
    cost: Mapping[str, float] | None
    unknown_s: float
    forecast: Mapping[str, float] | None
    assumed: bool


@dataclass(frozen=True, slots=True)
class SweepCosts:
    """What a sweep cost: an hour of a box counts once, however many cells share it.

    Attributes:
        sweep: Its name.
        runs: How many runs it has.
        gpu_hours: GPUs held, times hours.
        cost: By currency; None without a price.
    """

    sweep: str
    runs: int
    gpu_hours: float
    cost: Mapping[str, float] | None


@dataclass(frozen=True, slots=True)
class Costs:
    """What everything cost.

    Attributes:
        hosts: Each host since it is rented.
        weeks: Each host in each week that cost something, the newest week first.
        runs: Each run.
        sweeps: Each sweep.
        total: The sum over the hosts, by currency; None without a price.
        week: The same of the last 7 days.
        notes: Sentences about what is assumed or not known.
    """

    hosts: tuple[HostCosts, ...]
    weeks: tuple[HostCosts, ...]
    runs: tuple[RunCosts, ...]
    sweeps: tuple[SweepCosts, ...]
    total: Mapping[str, float] | None
    week: Mapping[str, float] | None
    notes: tuple[str, ...]


def costs_of(report: CostReport) -> Costs:
    """Return a report of costs as values."""
    return Costs(
        hosts=tuple(map(_host, report.hosts)),
        weeks=tuple(map(_host, report.weeks)),
        runs=tuple(
            RunCosts(
                run_id=each.run_id,
                host=each.host,
                state=sanitize_line(each.state),
                sweep=each.sweep,
                seconds=each.lasted_s,
                gpu_hours=each.gpu_hours,
                cost=each.cost.as_json(),
                unknown_s=each.cost.unknown_s,
                forecast=each.forecast.as_json() if each.forecast is not None else None,
                assumed=each.is_assumed,
            )
            for each in report.runs
        ),
        sweeps=tuple(SweepCosts(each.name, each.runs, each.gpu_hours, each.cost.as_json()) for each in report.sweeps),
        total=report.total.as_json(),
        week=report.week.as_json(),
        notes=tuple(sanitize_line(each, 500) for each in (*report.notes, *report.box_notes)),
    )


def _host(found: HostCost) -> HostCosts:
    return HostCosts(
        host=found.host,
        since=found.since,
        until=found.until,
        cost=found.whole.as_json(),
        runs=found.runs.as_json(),
        unused=found.unused.as_json(),
        idle=found.idle.as_json() if found.idle is not None else None,
        idle_s=found.idle_s,
        unknown_s=found.whole.unknown_s,
        gpu_hours=found.gpu_hours,
    )
