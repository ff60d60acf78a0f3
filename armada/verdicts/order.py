"""Decide which of two observations of a host is later, and what it means if the later one shows less."""

from __future__ import annotations

import enum
from dataclasses import dataclass

LAG_S = 120.0
"""How long a machine may show outdated files of a shared file system after another wrote them, in seconds (NFS caches: 60 by default)."""


@dataclass(frozen=True, slots=True)
class Moment:
    """Seconds since a boot, and the boot's id: a monotonic clock that nobody sets."""

    boot: str
    seconds: float


class Order(enum.Enum):
    """How a new observation relates to the known one."""

    NEWER = "newer"
    STALE = "stale"
    DOUBTFUL = "doubtful"
    WENT_BACK = "went back"


def compare(
    *,
    seen: tuple[int, int, int],
    known: tuple[int, int, int],
    seen_at: Moment | None,
    known_at: Moment | None,
    less_since: Moment | None = None,
) -> Order:
    """Compare one observation with the known one.

    A record's place, (submission, attempt, number of the record), only grows. An answer with a lower place was delayed
    on its way, unless the host gave it after the known one: then the host was reset to an older copy of its disk. One
    machine sees its own files in order. Another machine, or the same one after a reboot, is believed only if it keeps showing less
    for longer than a shared file system lags. So is any machine if nobody noted when the known answer was given.

    Args:
        seen: The place in this answer.
        known: The place known before.
        seen_at: When the host gave this answer.
        known_at: When the host gave the known answer; None if an older armada recorded it, or an older agent gave it.
        less_since: When a boot, of which no order with the known answer is known, was first seen to show less.
    """
    if seen >= known:
        return Order.NEWER
    if seen_at is None:
        return Order.STALE
    if known_at is not None and seen_at.boot == known_at.boot:
        return Order.WENT_BACK if seen_at.seconds > known_at.seconds else Order.STALE
    if less_since is None or less_since.boot != seen_at.boot:
        return Order.DOUBTFUL
    return Order.WENT_BACK if seen_at.seconds - less_since.seconds > LAG_S else Order.STALE
