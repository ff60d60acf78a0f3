"""Ticks of an axis at 1, 2 or 5 times a power of ten, on clocks at whole minutes, hours and days; and how they are written."""

from __future__ import annotations

import math
import time
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_CLOCK_STEPS_S = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400)
_DAY_S = 86_400
MOST_TICKS = 100
WRITTEN = 0.01
"""Ticks that are this fraction of their value apart differ in what is written at them."""
_UNITS = ((1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))


def step_of(width: float, most: int) -> float:
    """Return the smallest step of 1, 2 or 5 times a power of ten of which at most `most` fit into a width; 0.0 if none does."""
    if not (math.isfinite(width) and width > 0) or most < 1:
        return 0.0
    least = width / most
    if least < 1e-300:
        return 0.0
    power = 10.0 ** math.floor(math.log10(least))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= least * (1 - 1e-9))


def ticks(low: float, high: float, most: int) -> list[float]:
    """Return the places of ticks between two values: about `most`, and two if any scale has them."""
    found: list[float] = []
    for fits in range(max(2, most), max(2, most) + 4):
        found = _multiples(low, high, step_of(high - low, fits))
        if len(found) > 1:
            break
    return found


def distance(places: list[float]) -> float:
    """Return the distance between ticks; 0.0 if there is one or none."""
    return places[1] - places[0] if len(places) > 1 else 0.0


def row_of(share: float, rows: int) -> int:
    """Return the row in which a curve has its dot, by the share of the height above it; four dots are in a row."""
    return round(share * (rows * 4 - 1)) // 4


def is_even(rows: Sequence[int]) -> bool:
    """Whether different rows, in order, have the same distance."""
    steps = {after - before for before, after in pairwise(rows)}
    return len(steps) <= 1 and 0 not in steps


def evenly(rows: Sequence[int], values: Sequence[float] = (), apart: int = 1) -> range:
    """Return the places of ticks that stay so that the rows between them are equal: as many as possible.

    Args:
        rows: The rows of the ticks, in order.
        values: Their values: then ticks come first that are 1, 2 or 5 apart and at multiples of that, then other multiples.
        apart: The fewest rows from one to the next.
    """
    strides = ((stride, first) for stride in range(1, len(rows)) for first in range(stride))
    found = [range(first, len(rows), stride) for stride, first in strides]
    found = [kept for kept in found if len(kept) > 1 and is_even([rows[place] for place in kept])]
    found = [kept for kept in found if abs(rows[kept[1]] - rows[kept[0]]) >= apart]
    if not found:
        return range(min(1, len(rows)))
    if not values:
        return found[0]
    kept = min(found, key=lambda each: _oddity([values[place] for place in each]))
    return kept if _oddity([values[place] for place in kept]) < 2 else _two_of(rows)


def _two_of(rows: Sequence[int]) -> range:
    """Return the places of two ticks beside each other, the two that are furthest apart."""
    first = max(range(len(rows) - 1), key=lambda place: abs(rows[place + 1] - rows[place]))
    return range(first, first + 2)


def is_round(values: Sequence[float]) -> bool:
    """Whether ticks are 1, 2 or 5 times a power of ten apart, and at multiples of that: 0.2, 0.8, 1.4 are not."""
    return _oddity(values) == 0


def _oddity(values: Sequence[float]) -> int:
    step = distance(list(values))
    if not math.isclose((values[0] / step) if step else 0.0, round(values[0] / step) if step else 0.0, abs_tol=1e-6):
        return 2
    return 0 if abs(step_of(step, 1) - step) < 1e-6 * step else 1


def log_ticks(low: float, high: float, most: int) -> list[float]:
    """Return ticks on a logarithmic axis, as exponents: whole decades, or 1, 2 and 5 of each if few are shown, or what lies between."""
    decades = ticks(low, high, most)
    if len(decades) > 1 and all(each == round(each) for each in decades):
        return decades
    if high - low > MOST_TICKS:
        return decades
    powers = range(math.floor(low), math.ceil(high) + 1)
    found = [power + math.log10(factor) for power in powers for factor in (1, 2, 5)]
    found = [each for each in found if low <= each <= high]
    return found if len(found) > 1 else _within_decade(low, high, most) or found or decades


def _within_decade(low: float, high: float, most: int) -> list[float]:
    """Return ticks, as exponents, that are 1, 2 or 5 apart as values: 0.62 and 0.64, where no two of 0.1, 0.2 and 0.5 are."""
    for fits in range(max(2, most), 1, -1):
        found = [each for each in ticks(linear(low), linear(high), fits) if each > 0]
        if len(found) > 1 and distance(found) >= WRITTEN * found[-1]:
            return [math.log10(each) for each in found]
    return []


def time_ticks(low: float, high: float, most: int, *, local: bool) -> list[float]:
    """Return ticks on an axis of seconds: whole seconds, minutes, hours and days.

    Args:
        low: The first second, a Unix time if `local`.
        high: The last one.
        most: How many fit.
        local: Place them by the local clock.
    """
    least = (high - low) / max(1, most)
    step = next((float(each) for each in _CLOCK_STEPS_S if each >= least), 0.0)
    if not step:
        step = _DAY_S * max(1.0, step_of((high - low) / _DAY_S, most))
    shift = float(time.localtime(low).tm_gmtoff) if local and 0 <= low < 1e11 else 0.0
    return [each - shift for each in _multiples(low + shift, high + shift, step)]


def _multiples(low: float, high: float, step: float) -> list[float]:
    if step <= 0 or not (math.isfinite(low) and math.isfinite(high)) or (high - low) / step > MOST_TICKS:
        return []
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [number * step for number in range(first, min(last, first + MOST_TICKS) + 1)]


def linear(exponent: float) -> float:
    """Return the value of a place on a logarithmic axis; an axis can end above the largest number: infinite."""
    try:
        return float(10.0**exponent)
    except OverflowError:
        return math.inf


def log_figures(exponents: Sequence[float]) -> list[str]:
    """Write the ticks of a logarithmic axis in one notation, from their places there."""
    values = [linear(each) for each in exponents]
    if all(math.isfinite(value) for value in values):
        return figures(values)
    return [
        figure(value) if math.isfinite(value) else f"1e{each:.0f}"
        for value, each in zip(values, exponents, strict=True)
    ]


def figure(value: float, step: float = 0.0, largest: float = 0.0) -> str:
    """Write a value with as many digits as its step needs, or four: `0.38`, `12k`, `1.5M`, `3e-05`.

    Args:
        value: A tick, or a value between ticks.
        step: The distance between ticks; 0.0 for a value with four digits.
        largest: The largest tick, so that all of an axis have one unit.
    """
    if not math.isfinite(value):
        return str(value)
    size = max(abs(value), abs(largest), step)
    if value == 0:
        return "0"
    if size < 1e-3 or size >= 1e12:
        return f"{value:.2g}" if step else f"{value:.2e}"
    units = ((1e9, "G"), (1e6, "M"), (2e3 if step else 1e4, "k"))
    unit = next((unit for least, unit in units if size >= least), "")
    divisor = {"G": 1e9, "M": 1e6, "k": 1e3}.get(unit, 1.0)
    if not step:
        return f"{value / divisor:.4g}{unit}"
    digits = max(0, -math.floor(math.log10(step / divisor) + 1e-9))
    return f"{value / divisor:.{min(digits, 6)}f}{unit}"


def figures(values: Sequence[float]) -> list[str]:
    """Write the ticks of one axis in one notation: `4k` beside `20k`, `500` beside `20000`, `100`, `1k` beside `1M`."""
    sizes = [abs(value) for value in values if value]
    if not sizes or not 1e4 <= max(sizes) < 1e12:
        return [figure(value) for value in values]
    divisor, unit = next((pair for pair in _UNITS if min(sizes) >= pair[0]), _UNITS[-1])
    if max(sizes) < 1e6 * divisor:
        return [f"{value / divisor:.6g}{unit if value else ''}" for value in values]
    made = []
    for value in values:
        divisor, unit = next((pair for pair in _UNITS if abs(value) >= pair[0]), _UNITS[-1])
        made.append(f"{value / divisor:.4g}{unit}")
    return made
