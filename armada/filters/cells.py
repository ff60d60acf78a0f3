"""Show the value of a key in a table's cell."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

from armada.costs.price import money
from armada.foundation.sanitize import sanitize_line
from armada.units import amount, short_number, span

if TYPE_CHECKING:
    from armada.filters.keys import Key, Subject

LONGEST = 60
MOST_COLUMNS = 30


def is_number(key: Key) -> bool:
    """Whether the values of a key are aligned to the right."""
    return key.kind in ("number", "duration", "size")


def cell(key: Key, subject: Subject, room: int | None = None) -> str:
    """Return the value of a key for a run, in one line; empty if it is not known.

    Args:
        key: What is shown.
        subject: The run.
        room: The width of the column, which a number with decimals is written for; None: it has all that it needs.
    """
    if key.name in ("cost", "forecast"):
        found = subject.costs if key.name == "cost" else subject.forecast
        return found.text() if found is not None else ""
    if key.name == "loss" and subject.run.loss is None:
        return subject.run.loss_not_finite or ""
    value = key.read(subject)
    if value in (None, (), ""):
        return ""
    if isinstance(value, tuple):
        return sanitize_line(", ".join(_plain(each) for each in value), LONGEST)
    if isinstance(value, str):
        return sanitize_line(value, LONGEST)
    if key.kind == "flag":
        return "yes" if value else ""
    if key.kind == "duration":
        return span(value)
    if key.kind == "size":
        return amount(value)
    if key.kind == "moment":
        return _moment(value)
    if key.name == "price" and subject.rate is not None:
        return money(*subject.rate)
    if key.name == "progress":
        return f"{value:.0%}"
    return _plain(value, room)


def _plain(value: str | float, room: int | None = None) -> str:
    if isinstance(value, float) and math.isfinite(value):
        if value == int(value) and abs(value) < 1e6:
            return f"{value:.0f}"
        return f"{value:.4g}" if room is None else short_number(value, room)
    return str(value)


def _moment(value: float) -> str:
    try:
        return time.strftime("%Y-%m-%d %H:%M", time.localtime(value))
    except (OverflowError, ValueError, OSError):
        return ""
