"""Where the points of a curve stand on the x axis: by step, time, tokens or money."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from typing import TYPE_CHECKING, NamedTuple

from armada.compare.metrics import TOKENS
from armada.costs.tariff import merged

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from armada.tui.curves import Curve
    from armada.tui.snapshot import RunRow

NO_PRICE = "it needs the host's price"


class Placed(NamedTuple):
    """The places of a curve's points, never decreasing, and their unit; `why` says why there are none."""

    xs: Sequence[float]
    unit: str
    why: str = ""


class _Spent(NamedTuple):
    """What a run had cost at some moments; straight lines lie between them."""

    moments: Sequence[float]
    amounts: Sequence[float]
    currency: str
    shift_s: float
    """How far home's clock is ahead of the clock in the metrics."""


class XAxis:
    """Computes places, and keeps them until a curve grows or a price changes: a million points take a second."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str, str], tuple[object, Placed]] = {}

    def place(self, row: RunRow, name: str, curve: Curve, against: str, tokens: Curve | None, now: float) -> Placed:
        """Return where the points of a curve are.

        Args:
            row: The run.
            name: The metric.
            curve: Its points.
            against: `step`, `time`, `tokens` or `cost`.
            tokens: The curve of the tokens; None if it was not read.
            now: Unix time.
        """
        if against == "step":
            return Placed(curve.steps, "step")
        run, key = row.run, (row.id, name, against)
        more = (tokens, len(tokens) if tokens is not None else 0) if against == "tokens" else ()
        price = (row.tariff, row.past, run.gpus, run.ended_at) if against == "cost" else ()
        stamp = (curve, len(curve), run.started_at, run.attempt, run.submission, more, price)
        known = self._known.get(key)
        if known is not None and known[0] == stamp:
            return known[1]
        if against == "time":
            made = Placed(_shifted(curve.times, _start(row, curve)), "time")
        elif against == "tokens":
            made = _by_tokens(curve, tokens)
        else:
            made = _by_cost(row, curve, now)
        self._known[key] = (stamp, made)
        return made


def _start(row: RunRow, curve: Curve) -> float:
    """Return when the run began, by the clock in its metrics; of a resumed one, when its first attempt did."""
    run, first = row.run, curve.times[0]
    if run.started_at is None:
        return first
    return min(run.started_at, first) if run.attempt > 1 or run.submission > 1 else run.started_at


def _by_tokens(curve: Curve, tokens: Curve | None) -> Placed:
    if tokens is None or not len(tokens):
        return Placed((), "tokens", f"it needs the metric {TOKENS}")
    counts, steps = tokens.raw.values, tokens.steps
    if steps == curve.steps:
        return Placed(_rising(counts), "tokens")
    last = len(steps) - 1
    places = (min(last, bisect_right(steps, step) - 1) for step in curve.steps)
    return Placed(_rising(counts[place] if place >= 0 else 0.0 for place in places), "tokens")


def _by_cost(row: RunRow, curve: Curve, now: float) -> Placed:
    spent = _spent(row, now)
    if isinstance(spent, str):
        return Placed((), "cost", spent)
    moments, amounts = spent.moments, spent.amounts
    last = len(moments) - 2
    if last == 0 and moments[1] > moments[0] and _rises(curve.times):  # one attempt at one price: most runs
        per_s, most, begin = amounts[1] / (moments[1] - moments[0]), amounts[1], moments[0] - spent.shift_s
        costs = [(moment - begin) * per_s for moment in curve.times]
        return Placed(array("d", [0.0 if cost < 0 else min(cost, most) for cost in costs]), spent.currency)
    place, low, high, per_s = -1, 0.0, 0.0, 0.0
    made, most = array("d"), 0.0
    for moment in curve.times:
        at = moment + spent.shift_s
        if place < 0 or not low <= at < high:
            place = min(last, max(0, bisect_right(moments, at) - 1))
            low, high = moments[place], moments[place + 1]
            per_s = (amounts[place + 1] - amounts[place]) / (high - low) if high > low else 0.0
        most = max(most, amounts[place] + per_s * (min(max(at, low), high) - low))
        made.append(most)
    return Placed(made, spent.currency)


def _spent(row: RunRow, now: float) -> _Spent | str:
    """Return what the run had cost at each change of its price, or why that is not known."""
    spans = merged(row.spans(now))
    if row.tariff is None or not spans or row.run.started_at is None:
        return NO_PRICE
    changes = [price.valid_from for price in row.tariff.prices if price.valid_from is not None]
    moments, amounts = [spans[0][0]], [0.0]
    currencies: set[str] = set()
    for start, end in spans:
        if start > moments[-1]:  # between two attempts it cost nothing
            moments.append(start)
            amounts.append(amounts[-1])
        for until in (*sorted(each for each in changes if start < each < end), end):
            found = row.tariff.cost_of_run(len(row.run.gpus), [(moments[-1], until)])
            if found.unknown_s > 0:
                return "its price is not known for all of the time" if row.tariff.prices else NO_PRICE
            currencies |= set(found.by_currency)
            moments.append(until)
            amounts.append(amounts[-1] + sum(found.by_currency.values()))
    if len(currencies) != 1:
        return "its price changed to another currency" if currencies else NO_PRICE
    return _Spent(moments, amounts, currencies.pop(), row.spans(now)[-1][0] - row.run.started_at)


def _rises(values: array[float]) -> bool:
    """Whether the values never decrease; sorting what is sorted is faster than a loop."""
    return values.tolist() == sorted(values)


def _shifted(values: array[float], start: float) -> array[float]:
    """Return the values from a start on, never decreasing and never below 0."""
    if _rises(values):
        return array("d", [value - start if value > start else 0.0 for value in values])
    return _rising(value - start for value in values)


def _rising(values: Iterable[float]) -> array[float]:
    """Return the values, never decreasing: where a clock ran backwards, or a count is missing, the former value is repeated."""
    made, last = array("d"), 0.0
    for value in values:
        last = max(last, value)
        made.append(last)
    return made
