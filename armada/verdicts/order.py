"""Decide which of two observations of a host is later, and what it means when the later one shows less."""

from __future__ import annotations

import enum
from dataclasses import dataclass

LAG_S = 120.0
"""For so long one machine may show files of a shared file system as they were before another wrote them (NFS caches: 60 s by default)."""


@dataclass(frozen=True, slots=True)
class Moment:
    """Seconds since a boot, and which boot: a clock that nobody sets."""

    boot: str
    seconds: float


class Order(enum.Enum):
    """What to make of an observation beside what is known."""

    NEWER = "newer"
    STALE = "stale"
    DOUBTFUL = "doubtful"
    WENT_BACK = "went back"


def compare(
    *,
    seen: tuple[int, int],
    known: tuple[int, int],
    seen_at: Moment | None,
    known_at: Moment | None,
    less_since: Moment | None = None,
) -> Order:
    """Judge one observation.

    A record's place, (attempt, number of the record), only grows. An answer with a lower place was held up on its way, unless the host
    gave it after the one that is known: then the host has gone back, to an older copy of its disk. One machine sees its own files in
    order. Another one, or the same after a restart, is believed when it goes on showing less for longer than a shared file system lags.

    Args:
        seen: The place in this answer.
        known: The place known before.
        seen_at: When the host answered.
        known_at: When it gave the answer that is known.
        less_since: When another boot than that one was first seen to show less.
    """
    if seen >= known:
        return Order.NEWER
    if seen_at is None or known_at is None:
        return Order.STALE
    if seen_at.boot == known_at.boot:
        return Order.WENT_BACK if seen_at.seconds > known_at.seconds else Order.STALE
    if less_since is None or less_since.boot != seen_at.boot:
        return Order.DOUBTFUL
    return Order.WENT_BACK if seen_at.seconds - less_since.seconds > LAG_S else Order.STALE
