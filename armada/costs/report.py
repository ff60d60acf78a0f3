"""What a host has cost since it is rented: what runs used of it, what nobody used, and the forecast to a run's end."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from armada.costs.amounts import Amounts, total
from armada.costs.tariff import Span, Tariff, lasted_s, merged, within, without

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

WEEK_S = 7 * 86_400.0
_LONGEST_S = 10 * 366 * 86_400.0


class Use(NamedTuple):
    """When a run was on its host, and what it held there.

    Attributes:
        held: GPUs.
        spans: When it ran: one span for each attempt.
        is_assumed: The last span goes on although the host does not answer: it is assumed that the run continues.
    """

    run_id: str
    host: str
    held: int
    spans: tuple[Span, ...]
    is_assumed: bool = False

    @property
    def lasted_s(self) -> float:
        return lasted_s(self.spans)

    def cost(self, tariff: Tariff | None) -> Amounts:
        """What it cost; without a tariff all of its time is unknown."""
        return Amounts({}, self.lasted_s) if tariff is None else tariff.cost_of_run(self.held, self.spans)


class HostCost(NamedTuple):
    """What a host cost in a window.

    Attributes:
        since: From when it is counted; None: nothing was ever seen there.
        until: Until when.
        whole: What the box cost; for a batch system the sum of its runs.
        runs: What runs used.
        unused: The GPUs that no run held while others ran.
        idle: The time without any run. None for a batch system, which nobody rents.
        idle_s: Seconds of that.
        gpu_hours: GPUs held, times hours.
        node_hours: Hours of runs, whatever they held.
    """

    host: str
    since: float | None
    until: float
    whole: Amounts
    runs: Amounts
    unused: Amounts
    idle: Amounts | None
    idle_s: float
    gpu_hours: float
    node_hours: float


def cost_of_host(
    host: str,
    tariff: Tariff | None,
    used: Sequence[Use],
    rented: tuple[float | None, float],
    window: Span,
    stopped: Sequence[Span] = (),
) -> HostCost:
    """Compute what a host cost.

    Args:
        host: Its name.
        tariff: Its prices; None: not known.
        used: All runs of the host.
        rented: Since when and until when the box counts, also while nothing runs there, in unix time. None: not known,
            so only what runs used. Runs of before, of an earlier box of this name, count as what they used.
        window: What of it counts.
        stopped: When it was stopped meanwhile.
    """
    starts = [span[0] for use in used for span in use.spans]
    first = min([*starts, *([rented[0]] if rented[0] is not None else [])], default=None)
    inside = [(use.held, within(use.spans, *window)) for use in used]
    busy = merged(span for _, spans in inside for span in spans)
    gpu_hours = sum(held * lasted_s(spans) for held, spans in inside) / 3600
    node_hours = sum(lasted_s(spans) for _, spans in inside) / 3600
    until = max(window[0], min(window[1], rented[1]))
    since = None if first is None else min(max(first, window[0]), until)
    paid = [(rented[0], max(rented[0], rented[1]))] if rented[0] is not None else []
    rent = within(without(paid, stopped), *window)
    tariff = tariff or Tariff(())
    runs = tariff.cost_together(inside)
    if not tariff.is_box:
        return HostCost(host, since, until, runs, runs, Amounts(), None, 0.0, gpu_hours, node_hours)
    whole = tariff.cost_of_box([*rent, *busy])
    occupied = tariff.cost_of_box(busy)
    idle_s = max(0.0, lasted_s([*rent, *busy]) - lasted_s(busy))
    return HostCost(
        host, since, until, whole, runs, occupied.less(runs), whole.less(occupied), idle_s, gpu_hours, node_hours
    )


def cost_so_far(found: Iterable[Use], tariffs: Mapping[str, Tariff]) -> Amounts | None:
    """What runs have cost together: an hour of a box counts once, however many share it. None without prices."""
    used: dict[str, list[Use]] = {}
    for use in found:
        used.setdefault(use.host, []).append(use)
    known = {host: tariffs[host] for host in used if host in tariffs}
    if not known:
        return None
    unknown_s = math.fsum(use.lasted_s for host in used if host not in known for use in used[host])
    parts = [tariff.cost_together([(use.held, use.spans) for use in used[host]]) for host, tariff in known.items()]
    return total([*parts, Amounts({}, unknown_s)])


def forecast(tariff: Tariff | None, use: Use, eta_s: float | None, now: float) -> Amounts | None:
    """Compute what a run will have cost at its last step, at the pace of its latest steps and the price of now.

    Args:
        tariff: Of its host.
        use: Its time so far.
        eta_s: Seconds to the last step; None if unknown.
        now: Unix time.

    Returns:
        The cost; None if the time or the price is not known.
    """
    rate = tariff.run_rate(use.held, now) if tariff is not None else None
    return cost_at_end(use.cost(tariff), rate, eta_s)


def cost_at_end(spent: Amounts, rate: tuple[float, str] | None, eta_s: float | None) -> Amounts | None:
    """Add to what a run cost what is left of it: the price of an hour with its currency, and the seconds to its last step."""
    if rate is None or eta_s is None or not 0 <= eta_s < _LONGEST_S:
        return None
    return total([spent, Amounts({rate[1]: rate[0] * eta_s / 3600})])
