"""A host's prices over time, and what a span of time costs there: for the whole box, and for the share of a run."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from armada.costs.amounts import Amounts, total
from armada.costs.price import Price

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Span: TypeAlias = tuple[float, float]
"""From and until, in unix time."""

DAY_S = 86_400.0
_MOMENT_S = 0.5

Rate: TypeAlias = Callable[[Price, int], float | None]
"""What an hour costs at a price, for so many GPUs; None if that is not known."""


class Tariff(NamedTuple):
    """What a host costs.

    Attributes:
        prices: The prices, in the order in which they became valid.
        gpus: How many GPUs the box has; None if that is not known.
        is_box: One box, paid as long as it is rented. Otherwise a batch system, where each job pays for what it holds.
    """

    prices: tuple[Price, ...]
    gpus: int | None = None
    is_box: bool = True

    @staticmethod
    def of(amount: float | None) -> Tariff | None:
        """The tariff of a box with one price in dollars; None without a price."""
        return Tariff((Price(amount),)) if amount is not None else None

    def price_at(self, moment: float) -> Price | None:
        """Return the price that is valid at a moment; None if none is."""
        found = None
        for price in self.prices:
            if price.valid_from is None or price.valid_from <= moment:
                found = price
        return found

    def share(self, held: int) -> float:
        """Return the share of the box that a run has: its GPUs of all GPUs.

        A run without GPUs, and any run on a box whose GPUs are not known, has the whole box: nobody else is meant to
        use it meanwhile.
        """
        if not self.is_box or held <= 0 or not self.gpus:
            return 1.0
        return min(1.0, held / self.gpus)

    def box_per_hour(self, price: Price) -> float | None:
        """Return what an hour of the whole box costs; None for a price per GPU of a box whose GPUs are not known."""
        if price.per == "box":
            return price.amount
        return price.amount * self.gpus if self.gpus else None

    def run_per_hour(self, price: Price, held: int) -> float | None:
        """Return what an hour costs a run that holds so many GPUs; None if that is not known."""
        if price.per == "gpu" and held > 0:
            return price.amount * held
        if not self.is_box:
            return price.amount if price.per == "box" else None  # a price per GPU says nothing of a job without GPUs
        whole = self.box_per_hour(price)
        return None if whole is None else whole * self.share(held)

    def run_rate(self, held: int, now: float) -> tuple[float, str] | None:
        """Return what a run costs an hour now, and the currency; None if that is not known."""
        price = self.price_at(now)
        amount = self.run_per_hour(price, held) if price is not None else None
        return None if price is None or amount is None else (amount, price.currency)

    def cost_of_run(self, held: int, spans: Iterable[Span]) -> Amounts:
        """Compute what a run costs.

        Args:
            held: How many GPUs it holds.
            spans: When it ran. One that ends before it starts, after a clock was set back, counts as nothing.
        """
        return self._cost([(span, held) for span in merged(spans)], self.run_per_hour)

    def reached_at(self, held: int, spans: Iterable[Span], amount: float, currency: str) -> float | None:
        """Return when a run had cost an amount, in unix time; None if it has not. Time without a price counts as nothing.

        Args:
            held: How many GPUs it holds.
            spans: When it ran.
            amount: How much.
            currency: Of the amount; what it cost in another one does not count.
        """
        ran_in = merged(spans)

        def spent(until: float) -> float:
            return self.cost_of_run(held, within(ran_in, -math.inf, until)).by_currency.get(currency, 0.0)

        if not ran_in or spent(ran_in[-1][1]) < amount:
            return None
        before, after = ran_in[0][0], ran_in[-1][1]
        while after - before > _MOMENT_S:
            middle = (before + after) / 2
            before, after = (before, middle) if spent(middle) >= amount else (middle, after)
        return after

    def cost_of_box(self, spans: Iterable[Span]) -> Amounts:
        """Compute what the whole box costs in these spans."""
        return self._cost([(span, 0) for span in merged(spans)], lambda price, _: self.box_per_hour(price))

    def cost_together(self, used: Sequence[tuple[int, Sequence[Span]]]) -> Amounts:
        """Compute what several runs cost together: an hour of the box is paid at most once.

        Args:
            used: For each run the GPUs it holds, and when it ran.
        """
        if not self.is_box:
            return total(self.cost_of_run(held, spans) for held, spans in used)
        starts = [(start, 1, held) for held, spans in used for start, _ in merged(spans)]
        ends = [(end, 0, held) for held, spans in used for _, end in merged(spans)]
        found: list[Amounts] = []
        active: list[int] = []
        since = -math.inf
        for moment, begins, held in sorted(starts + ends):
            if active and moment > since:
                found.append(self._cost([((since, moment), 0)], partial(self._together_per_hour, tuple(active))))
            active.append(held) if begins else active.remove(held)
            since = moment
        return total(found) if found else self._cost([], self.run_per_hour)

    def _together_per_hour(self, active: Sequence[int], price: Price, _: int) -> float | None:
        """What an hour of these runs costs: never more than the box."""
        parts = [self.run_per_hour(price, held) for held in active]
        whole = self.box_per_hour(price)
        known = [part for part in parts if part is not None]
        if len(known) < len(parts):
            return whole
        return math.fsum(known) if whole is None else min(whole, math.fsum(known))

    def _cost(self, used: Sequence[tuple[Span, int]], rate: Rate) -> Amounts:
        amounts: dict[str, list[float]] = {}
        unknown: list[float] = []
        for (start, end), held in used:
            known = self.prices[0].valid_from if self.prices else end
            if known is None:
                known = start
            unknown.append(max(0.0, min(end, known) - start))
            for index, price in enumerate(self.prices):
                after = self.prices[index + 1].valid_from if index + 1 < len(self.prices) else None
                begin = max(start, price.valid_from if price.valid_from is not None else start)
                seconds = (min(end, after) if after is not None else end) - begin
                if seconds <= 0:
                    continue
                per_hour = rate(price, held)
                if per_hour is None:
                    unknown.append(seconds)
                else:
                    amounts.setdefault(price.currency, []).append(per_hour * seconds / 3600)
        if not amounts and not any(unknown) and self.prices:
            # Nothing used yet, at a known price: zero of its currency.
            amounts[self.prices[-1].currency] = []
        return Amounts({currency: math.fsum(each) for currency, each in amounts.items()}, math.fsum(unknown))


def merged(spans: Iterable[Span]) -> list[Span]:
    """Return spans in order, those that overlap as one. Spans that are empty or run backwards are left out."""
    found: list[Span] = []
    for start, end in sorted(span for span in spans if span[1] > span[0]):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((start, end))
    return found


def within(spans: Iterable[Span], since: float, until: float) -> list[Span]:
    """Return the parts of spans that lie in a window."""
    return [(max(start, since), min(end, until)) for start, end in spans if end > since and start < until]


def ran(started_at: float, ended_at: float | None, created_at: float, now: float) -> Span:
    """Return when a run's newest attempt ran, as its host says, where that is possible.

    A host's clock may be years off. A start more than a day before the launch or in the future counts as the launch, with
    the time between start and end as the host says it, if there was so much; an end in the future counts as now.

    Args:
        started_at: By the host's clock.
        ended_at: By the host's clock; None: it runs.
        created_at: When home launched it.
        now: By home's clock.
    """
    start = started_at
    if not is_possible(started_at, created_at, now):
        start = created_at
        lasted = ended_at - started_at if ended_at is not None else -1.0
        ended_at = start + lasted if 0 <= lasted <= max(0.0, now - created_at) + DAY_S else None
    end = ended_at if ended_at is not None and ended_at <= now + DAY_S else now
    return (start, max(start, end))


def is_possible(started_at: float, created_at: float, now: float) -> bool:
    """Whether a start by a host's clock may be right: it is at most a day off."""
    return created_at - DAY_S <= started_at <= now + DAY_S


def without(spans: Iterable[Span], gaps: Iterable[Span]) -> list[Span]:
    """Return spans without the parts that lie in gaps."""
    found = merged(spans)
    for begin, end in merged(gaps):
        parts = [part for start, until in found for part in ((start, min(until, begin)), (max(start, end), until))]
        found = [(start, until) for start, until in parts if until > start]
    return found


def lasted_s(spans: Iterable[Span]) -> float:
    """Return the seconds that spans cover."""
    return math.fsum(end - start for start, end in merged(spans))
