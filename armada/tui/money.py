"""Sum up what hosts cost. A box counts once per hour, however many runs share it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from armada.costs.amounts import Amounts, total
from armada.costs.report import WEEK_S
from armada.costs.tariff import within
from armada.tui.snapshot import Money

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from armada.costs.tariff import Span, Tariff
    from armada.tui.snapshot import Counts, RunRow


EVERY_S = 2.0
"""How often the costs are summed up while only time passes, in seconds: of 10,000 runs, it takes 5 ms."""


class MoneyReader:
    """Sums up the costs when prices, hosts or the counts of runs have changed, else every few seconds.

    Args:
        clock: Seconds on a clock that nobody sets: one that went back would leave the costs as they were.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._read_at = float("-inf")
        self._made_from: object = None
        self._money: Money | None = None

    def read(
        self,
        rows: Collection[RunRow],
        tariffs: Mapping[str, Tariff],
        now: float,
        off: Collection[str],
        counts: Counts,
    ) -> Money | None:
        """Return the costs so far, as `reckon` does; those of a moment ago if nothing else has changed.

        Args:
            rows: As for `reckon`.
            tariffs: As for `reckon`.
            now: As for `reckon`.
            off: As for `reckon`.
            counts: How many runs are in which state.
        """
        moment, made_from = self._clock(), (len(rows), counts, dict(tariffs), frozenset(off))
        if made_from != self._made_from or moment - self._read_at > EVERY_S:
            self._read_at, self._made_from = moment, made_from
            self._money = reckon(rows, tariffs, now, off)
        return self._money


def reckon(
    rows: Iterable[RunRow], tariffs: Mapping[str, Tariff], now: float, off: Collection[str] = ()
) -> Money | None:
    """Sum up the costs so far; None if no host has a price that is not zero.

    Args:
        rows: All runs.
        tariffs: What hosts cost.
        now: Unix time.
        off: Hosts that nobody pays for now.
    """
    if not any(price.amount for tariff in tariffs.values() for price in tariff.prices):
        return None
    used: dict[str, list[tuple[int, list[Span]]]] = {name: [] for name in tariffs}
    active: dict[str, list[int]] = {}
    for row in rows:
        run = row.run
        if run.host not in tariffs or run.started_at is None:
            continue
        if not run.ended:
            active.setdefault(run.host, []).append(len(run.gpus))
        if spans := within(row.spans(now), now - WEEK_S, now):
            used[run.host].append((len(run.gpus), spans))
    busy: list[Amounts] = []
    idle: list[Amounts] = []
    week: list[Amounts] = []
    is_known = True
    for name, tariff in tariffs.items():
        if tariff.is_box:
            whole = _per_hour(tariff, now)
            if name in active or name not in off:
                is_known = is_known and whole.is_known
                (busy if name in active else idle).append(whole)
            week.append(tariff.cost_of_box(span for _, spans in used[name] for span in spans))
        else:  # nobody pays for a cluster that runs nothing
            rates = [rate for held in active.get(name, ()) if (rate := tariff.run_rate(held, now)) is not None]
            is_known = is_known and len(rates) == len(active.get(name, ()))
            busy += [Amounts({currency: amount}) for amount, currency in rates]
            week.append(tariff.cost_together(used[name]))
    if is_known:  # what nobody pays for costs nothing, in its currency
        prices = (tariff.price_at(now) for tariff in tariffs.values())
        busy += [Amounts({price.currency: 0.0}) for price in prices if price is not None]
    return Money(total(busy), total(idle), total(week))


def _per_hour(tariff: Tariff, now: float) -> Amounts:
    price = tariff.price_at(now)
    amount = tariff.box_per_hour(price) if price is not None else None
    return Amounts() if price is None or amount is None else Amounts({price.currency: amount})
