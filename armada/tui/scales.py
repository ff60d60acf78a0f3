"""Put one value of each run on an axis: numbers on a linear or logarithmic scale, everything else as categories."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from armada.compare.settings import text_of
from armada.tui import ticks
from armada.tui.beginnings import beginning_of
from armada.tui.curves import is_constant

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from armada.compare.metrics import Goal

Kind = Literal["linear", "log", "category"]

LARGEST = 1e300
"""Larger numbers are categories: the difference of two of them can be infinite."""
SPANS_DECADES = 10.0
"""Settings of which the largest is so many times the smallest have a logarithmic axis."""
Marks = tuple[tuple[float, str], ...]
"""Ticks, each with its place from 0 to 1 and its label."""
MOST_TICKS = 5
FEW = 6
"""Settings with at most so many different numbers have their ticks at them: half a process says nothing."""
FINER = (2, 3, 5, 8, 12, 18)
"""About so many ticks have axes with little room, and with much."""
LEAST_CUT = 5
"""Texts that begin alike with at least so many characters are labelled with what follows."""


@dataclass(frozen=True, slots=True)
class Scale:
    """An axis, and where each run is on it.

    Attributes:
        title: What is on it, sanitized.
        shares: From 0 to 1, one for each run; None: the run has no value.
        texts: The values as a person reads them, sanitized.
        marks: The ticks, with their labels; of texts that begin alike, what follows.
        values: The numbers; empty for categories.
        finer: The ticks for more and more room, the fewest first; empty for categories.
        is_exact: The ticks are the values, not numbers between them.
        given: The values that it was made of.
        remake: Makes it of others.
    """

    title: str
    kind: Kind
    shares: tuple[float | None, ...]
    texts: tuple[str, ...]
    marks: Marks
    values: tuple[float | None, ...] = ()
    finer: tuple[Marks, ...] = ()
    is_exact: bool = False
    given: tuple[Any, ...] = field(default=(), compare=False, repr=False)
    remake: Callable[[Sequence[Any]], Scale] | None = field(default=None, compare=False, repr=False)

    def among(self, places: Collection[int]) -> Scale:
        """Return the axis of these runs alone; the others have no value on it."""
        kept = [value if place in places else None for place, value in enumerate(self.given)]
        return self.remake(kept) if self.remake is not None else self

    @property
    def bounds(self) -> tuple[float, float] | None:
        """The lowest and the highest number, exponents if logarithmic; None if there are not two."""
        known = [value for value in self.values if value is not None]
        if not known or not self.varies:
            return None
        low, high = min(known), max(known)
        return (math.log10(low), math.log10(high)) if self.kind == "log" else (low, high)

    @property
    def known(self) -> int:
        """How many runs have a value."""
        return sum(share is not None for share in self.shares)

    @property
    def varies(self) -> bool:
        """Whether two runs have different values."""
        return len({share for share in self.shares if share is not None}) > 1


def scale_of(
    title: str,
    values: Sequence[Any],
    *,
    log: bool | None = None,
    write: Callable[[float], str] | None = None,
    exact: bool = False,
) -> Scale:
    """Return an axis for the values of runs.

    Args:
        title: What it is, sanitized.
        values: One for each run, as the settings have it; None where it is missing.
        log: Whether it is logarithmic; None: if the numbers span decades.
        write: Writes a number; by default, as a tick.
        exact: Where they are few different numbers, the ticks are at them.
    """
    made = _scale(title, values, log, write, few=FEW if exact else 0)
    remake = partial(scale_of, title, log=log, write=write, exact=exact)
    return replace(made, given=tuple(values), remake=remake)


def both(x: Scale, y: Scale) -> tuple[Scale, Scale]:
    """Return two axes for the runs that have a value on both: only those are drawn."""
    pairs = enumerate(zip(x.shares, y.shares, strict=True))
    places = {place for place, pair in pairs if None not in pair}
    return (x.among(places), y.among(places)) if places else (x, y)


def _scale(
    title: str, values: Sequence[Any], log: bool | None, write: Callable[[float], str] | None, *, few: int
) -> Scale:
    numbers = [_number(value) for value in values]
    known = [number for number in numbers if number is not None]
    if not known or any(number is None and value is not None for number, value in zip(numbers, values, strict=True)):
        return _categories(title, values)
    low, high = min(known), max(known)  # exponents below, if it is logarithmic
    if log is None:
        log = low > 0 and high >= low * SPANS_DECADES
    log = log and low > 0
    say = write or _short
    shown = tuple(numbers)
    texts = tuple("" if number is None else say(number) for number in shown)
    if log:
        numbers = [None if number is None else math.log10(number) for number in numbers]
        low, high = math.log10(low), math.log10(high)
    wide = 0.0 if is_constant(low, high, log=log) else high - low
    shares = tuple(None if n is None else (n - low) / wide if wide > 0 else 0.5 for n in numbers)
    pairs = zip(shown, shares, strict=True)
    different = sorted({(value, share) for value, share in pairs if value is not None and share is not None})
    is_exact = wide > 0 and len(different) <= few

    def labelled(values: Sequence[float]) -> list[str]:
        return (
            ticks.figures(values)
            if write is None and max(map(abs, values), default=0.0) >= 1e4
            else [say(each) for each in values]
        )

    def marks(most: int) -> Marks:
        if is_exact:
            return tuple(
                zip((share for _, share in different), labelled([value for value, _ in different]), strict=True)
            )
        if wide <= 0:
            return ((0.5, say(ticks.linear(low) if log else low)),)
        if log:
            found = ticks.log_ticks(low, high, most)
            return tuple(
                zip(((each - low) / wide for each in found), labelled([*map(ticks.linear, found)]), strict=True)
            )
        found = ticks.ticks(low, high, most)
        step, largest = ticks.distance(found), max(abs(low), abs(high))
        return tuple(
            ((each - low) / wide, write(each) if write else ticks.figure(each, step, largest)) for each in found
        )

    finer = tuple(dict.fromkeys(marks(most) for most in FINER))
    return Scale(title, "log" if log else "linear", shares, texts, marks(MOST_TICKS), shown, finer, is_exact)


def _categories(title: str, values: Sequence[Any]) -> Scale:
    texts = tuple("" if value is None else text_of(value) for value in values)
    named = sorted({text for text, value in zip(texts, values, strict=True) if value is not None})
    places = {text: place / (len(named) - 1) if len(named) > 1 else 0.5 for place, text in enumerate(named)}
    shares = tuple(None if value is None else places[text] for text, value in zip(texts, values, strict=True))
    alike = beginning_of(named)
    alike = alike if alike >= LEAST_CUT else 0
    marks = tuple((share, f"…{text[alike:]}" if alike else text) for text, share in places.items())
    return Scale(title, "category", shares, texts, marks)


def _short(value: float) -> str:
    return ticks.figure(value) if abs(value) >= 1e-3 or value == 0 else f"{value:.3g}"


def _number(value: Any) -> float | None:
    """Return a number that can stand on an axis; None for anything else, such as true."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) and abs(number) <= LARGEST else None


def pareto_front(costs: Sequence[float | None], values: Sequence[float | None], goal: Goal) -> set[int]:
    """Return the places of the runs that no other run dominates: none is cheaper and as good, or better and as cheap.

    Args:
        costs: What each run cost, in one currency; None: not known.
        values: The metric of each run.
        goal: Whether low or high values are better.
    """
    sign = 1.0 if goal == "min" else -1.0
    points = [
        (cost, sign * value, place)
        for place, (cost, value) in enumerate(zip(costs, values, strict=True))
        if cost is not None and value is not None
    ]
    return {
        place
        for cost, value, place in points
        if not any(one <= cost and other <= value and (one < cost or other < value) for one, other, _ in points)
    }
