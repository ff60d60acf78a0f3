"""Curves in memory: the points, and the minimum and maximum of each block, so that half a million points draw quickly."""

from __future__ import annotations

import math
import operator
from array import array
from bisect import bisect_left
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from armada.compare.metrics import Goal

BLOCK = 64
NAN = float("nan")
ROUNDING = 1e-9
"""Values that differ by so small a part of their size are equal: the difference is how computers calculate."""


class Levels:
    """Values with the extremes of each block of `BLOCK`, and of each block of those; a NaN is a gap and is no extreme."""

    def __init__(self, values: Iterable[float] = ()) -> None:
        self.values = array("d")
        self._lows = (array("d"), array("d"))
        self._highs = (array("d"), array("d"))
        self.extend(values)

    def __len__(self) -> int:
        return len(self.values)

    def extend(self, values: Iterable[float]) -> None:
        """Append values; only the last blocks are recomputed."""
        start = len(self.values)
        self.values.extend(values)
        self._rebuild(self.values, self.values, self._lows[0], self._highs[0], start // BLOCK)
        self._rebuild(self._lows[0], self._highs[0], self._lows[1], self._highs[1], start // BLOCK**2)

    @staticmethod
    def _rebuild(
        low_from: array[float], high_from: array[float], lows: array[float], highs: array[float], first: int
    ) -> None:
        del lows[first:], highs[first:]
        for start in range(first * BLOCK, len(low_from), BLOCK):
            end = start + BLOCK
            lows.append(_extreme(low_from[start:end], lowest=True))
            highs.append(_extreme(high_from[start:end], lowest=False))

    def extremes(self, start: int, end: int) -> tuple[float, float] | None:
        """Return the minimum and maximum of values[start:end]; None if all are gaps."""
        if end - start <= BLOCK:  # most columns of a chart: no blocks are needed
            part = self.values[start:end]
            if not part:
                return None
            if (whole := sum(part)) == whole:  # only NaN differs from itself
                return min(part), max(part)
        low, high = math.inf, -math.inf
        for kind, (from_, to) in self._cover(start, end):
            source_low = self.values if kind < 0 else self._lows[kind]
            source_high = self.values if kind < 0 else self._highs[kind]
            low = min(low, _or(_extreme(source_low[from_:to], lowest=True), math.inf))
            high = max(high, _or(_extreme(source_high[from_:to], lowest=False), -math.inf))
        return (low, high) if low <= high else None

    def not_positive(self, start: int, end: int) -> int:
        """Count the values of values[start:end] that are not above zero."""
        found = self.extremes(start, end)
        return sum(map((0.0).__ge__, self.values[start:end])) if found is not None and found[0] <= 0 else 0

    @staticmethod
    def _cover(start: int, end: int) -> Iterable[tuple[int, tuple[int, int]]]:
        """Split a range into pieces: single values (-1) at its edges, blocks (0, 1) within."""
        for size, kind in ((BLOCK**2, 1), (BLOCK, 0)):
            first, last = -(-start // size), end // size
            if last > first:
                yield kind, (first, last)
                yield from Levels._cover(start, first * size)
                yield from Levels._cover(last * size, end)
                return
        if end > start:
            yield -1, (start, end)


def _extreme(values: Sequence[float], *, lowest: bool) -> float:
    """Return the extreme of the values that are not NaN; NaN if all are. Uses the fast `min` and `max` if there is no NaN."""
    if not values:
        return NAN
    if sum(values) != sum(values):  # a sum with a NaN is NaN, and only NaN differs from itself
        values = [value for value in values if value == value]  # noqa: PLR0124
        if not values:
            return NAN
    return min(values) if lowest else max(values)


def _or(value: float, other: float) -> float:
    return other if math.isnan(value) else value


class Curve:
    """One metric of one run; steps never decrease.

    Its newest value is the one that was measured last, as in lists of runs: after a script counts its steps anew, it is
    not that of the highest step.
    """

    def __init__(self, points: Iterable[tuple[float, float, float | None]] = ()) -> None:
        self.steps = array("d")
        self.times = array("d")
        self.raw = Levels()
        self.newest = NAN
        """The newest value, even if it is not finite and so not drawn."""
        self.newest_at = -math.inf
        """When it was measured, and its place."""
        self.newest_place = -1
        self._in_order = True
        """Whether no point was measured before one of a lower step."""
        self.gaps: list[int] = []
        """Where values that are not finite begin."""
        self.not_finite = 0
        """How many values are not finite."""
        self._not_positive: int | None = None
        self._made: dict[tuple[bool, float], Levels] = {}
        self.extend(points)

    def __len__(self) -> int:
        return len(self.steps)

    def extend(self, points: Iterable[tuple[float, float, float | None]]) -> None:
        """Append (step, time, value); None is a NaN. Values that are not finite become gaps."""
        found = list(points)
        if not found:
            return
        before = len(self.steps)
        self.steps.extend(step for step, _, _ in found)
        self.times.extend(moment for _, moment, _ in found)
        self._find_newest(found, before)
        values = [NAN if value is None or math.isinf(value) else value for _, _, value in found]
        if (whole := sum(values)) != whole:  # a sum with a NaN is NaN
            former = [self.raw.values[-1] if len(self.raw) else 0.0, *values]
            gap = (place for place, value in enumerate(values) if math.isnan(value) and not math.isnan(former[place]))
            self.gaps += [len(self.raw) + place for place in gap]
            self.not_finite += sum(map(math.isnan, values))
        self.raw.extend(values)
        self._made.clear()
        self._not_positive = None

    def _find_newest(self, found: Sequence[tuple[float, float, float | None]], before: int) -> None:
        """Take the newest of the points that were appended, if none before is newer; of one moment, that of the highest step."""
        times = self.times[max(0, before - 1) :]
        self._in_order = self._in_order and all(map(operator.le, times, islice(times, 1, None)))
        place = len(found) - 1
        if not self._in_order:
            place = max(range(len(found)), key=lambda each: (found[each][1], each))
        _, moment, value = found[place]
        if moment >= self.newest_at:
            self.newest_at, self.newest_place = moment, before + place
            self.newest = NAN if value is None else value

    @property
    def _newest_first(self) -> Sequence[int]:
        """The places of the points in the order in which they were measured, backwards."""
        places = range(len(self) - 1, -1, -1)
        return places if self._in_order else sorted(places, key=self.times.__getitem__, reverse=True)

    @property
    def not_positive(self) -> int:
        """How many values are not above zero, which a logarithmic scale cannot show."""
        if self._not_positive is None:
            self._not_positive = self.raw.not_positive(0, len(self.raw))
        return self._not_positive

    def doubt(self, *, log: bool = False) -> str:
        """Describe the newest value if it cannot be drawn: its value, and since when it is not finite."""
        if not len(self):
            return ""
        if math.isfinite(self.newest):
            return f"{self.newest:.4g}: not on a logarithmic scale" if log and self.newest <= 0 else ""
        first = self.newest_place
        for place in self._newest_first:
            if not math.isnan(self.raw.values[place]):
                break
            first = place
        return f"{self.newest_word} since step {self.steps[first]:,.0f}"

    @property
    def newest_word(self) -> str:
        """`NaN`, `inf` or `-inf` if the newest value is not finite; else "", as without points."""
        if not len(self) or math.isfinite(self.newest):
            return ""
        return "NaN" if math.isnan(self.newest) else str(self.newest)

    @property
    def last(self) -> float | None:
        """The newest finite value."""
        found = self.last_finite
        return found[1] if found is not None else None

    @property
    def last_finite(self) -> tuple[float, float] | None:
        """Step and value of the newest finite value."""
        place = self.last_place
        return (self.steps[place], self.raw.values[place]) if place is not None else None

    @property
    def last_place(self) -> int | None:
        """The place of the newest finite value."""
        if len(self) and math.isfinite(self.newest):
            return self.newest_place
        return next((place for place in self._newest_first if not math.isnan(self.raw.values[place])), None)

    def best(self, goal: Goal | None) -> tuple[float, float] | None:
        """Return step and value of the first point with the best value; None without a goal, or without points."""
        found = self.raw.extremes(0, len(self.raw)) if goal is not None else None
        if found is None:
            return None
        value = found[0] if goal == "min" else found[1]
        return self.steps[self.raw.values.index(value)], value

    def shown(self, *, log: bool, smoothing: float) -> Levels:
        """Return the curve as drawn, cached until new points arrive."""
        if not log and not smoothing:
            return self.raw
        key = (log, smoothing)
        if key not in self._made:
            values: Iterable[float]
            if not log:
                values = smoothed(self.raw.values, smoothing)
            else:
                values = self.shown(log=False, smoothing=smoothing).values
                found = self.raw.extremes(0, len(self.raw))
                if found is not None and found[0] > 0 and not self.gaps:
                    values = map(math.log10, values)
                else:
                    values = (math.log10(value) if value > 0 else NAN for value in values)
            self._made[key] = Levels(values)
        return self._made[key]


def nearest(xs: Sequence[float], levels: Levels, place: float) -> float | None:
    """Return the value of the point that is nearest to a place on the x axis; None for a gap."""
    count = min(len(xs), len(levels))
    after = bisect_left(xs, place, 0, count)
    near = [index for index in (after - 1, after) if 0 <= index < count]
    if not near:
        return None
    value = levels.values[min(near, key=lambda index: abs(xs[index] - place))]
    return None if math.isnan(value) else value


def smoothed(values: Sequence[float], weight: float) -> array[float]:
    """Compute the exponential moving average without bias towards the first values; gaps stay gaps, and a constant itself."""
    made, average, scale, rest = [], 0.0, 0.0, 1 - weight
    for value in values:
        if value != value:  # noqa: PLR0124  # a NaN; `isnan` would take half of the time
            made.append(NAN)
            continue
        scale = scale * weight + rest
        average += (value - average) * (rest / scale)  # a sum of weighted values would make noise of a constant
        made.append(average)
    if not math.isfinite(average):  # the difference of two values is infinite
        return array("d", [each * 4 for each in smoothed([value / 4 for value in values], weight)])
    return array("d", made)


def is_constant(low: float, high: float, *, log: bool = False) -> bool:
    """Whether two values differ by no more than rounding; those of a logarithmic scale are exponents."""
    return high - low <= ROUNDING * (1.0 if log else max(abs(low), abs(high)))


class CurveUpdate(NamedTuple):
    """An update of a curve: the whole curve, or the points after those already read."""

    run_id: str
    name: str
    fresh: Curve | None
    added: tuple[tuple[float, float, float | None], ...] = ()


def no_values(metric: str, *, ended: bool, task: str) -> str:
    """Say that a run has no values of a metric: none yet, or none at all if it has ended. A command may never have any."""
    if task == "command":
        return f"no {metric} recorded"
    return f"no {metric} was recorded" if ended else f"no {metric} yet"
