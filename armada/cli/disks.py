"""Format the warnings about the disks of hosts."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from armada.units import amount, span

if TYPE_CHECKING:
    from collections.abc import Mapping

    from armada.store.hosts import DiskForecast

FULL_SOON_S = 24 * 3600.0
"""A disk that is foreseen to be full within so long is worth a line."""

FRESH_S = 3600.0
"""An older forecast is no news."""


def room(forecast: DiskForecast | None) -> str:
    """`121 GB free, full in 5 h 02 m`, for a table."""
    if forecast is None:
        return "—"
    soon = "" if forecast.full_at is None else f", full {_in(forecast)}"
    return f"{amount(forecast.free_bytes)} free{soon}"


def foreseen(forecast: DiskForecast | None) -> str:
    """Forecast how a host's runs fill its disk, as a clause; empty if they save nothing."""
    if forecast is None or (forecast.full_at is None and not forecast.bytes_per_s):
        return ""
    pace = f"its runs save {amount(forecast.bytes_per_s * 3600)} an hour"
    if forecast.full_at is not None:
        return f"full {_in(forecast)}: {pace}"
    return f"enough: {pace}, at most {amount(forecast.needed_bytes or 0)} more"


def say_full_soon(disks: Mapping[str, DiskForecast], now: float) -> None:
    """Print a line for every host whose disk will be full within a day."""
    for name, forecast in disks.items():
        is_news = now - forecast.at < FRESH_S
        if is_news and forecast.full_at is not None and forecast.full_at - now < FULL_SOON_S:
            print(f"⚠ {name}: {amount(forecast.free_bytes)} free, {foreseen(forecast)}")


def _in(forecast: DiskForecast) -> str:
    left_s = (forecast.full_at or forecast.at) - time.time()
    return f"in about {span(left_s)}" if left_s > 0 else "now"
