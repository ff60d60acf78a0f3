"""Compute what runs cost. A host's price counts once per hour, however many runs share it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from armada.tui.snapshot import Money

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from armada.tui.snapshot import RunRow

WEEK_S = 7 * 86_400.0


def reckon(rows: Iterable[RunRow], prices: Mapping[str, float | None], now: float) -> Money | None:
    """Compute the costs so far; None if no host has a price."""
    priced = {name: price for name, price in prices.items() if price}
    if not priced:
        return None
    spans: dict[str, list[tuple[float, float]]] = {name: [] for name in priced}
    busy = set()
    for row in rows:
        run = row.run
        if run.host not in priced or run.started_at is None:
            continue
        if not run.ended:
            busy.add(run.host)
        start, end = max(run.started_at, now - WEEK_S), run.ended_at or now
        if end > start:
            spans[run.host].append((start, end))
    week = sum(priced[name] * _covered_s(spans[name]) / 3600 for name in priced)
    return Money(
        sum(price for name, price in priced.items() if name in busy),
        sum(price for name, price in priced.items() if name not in busy),
        week,
    )


def _covered_s(spans: list[tuple[float, float]]) -> float:
    total, until = 0.0, float("-inf")
    for start, end in sorted(spans):
        total += max(0.0, end - max(start, until))
        until = max(until, end)
    return total
