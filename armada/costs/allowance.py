"""Hours on a cluster that somebody was granted, as the user wrote them down, and what runs used of them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from armada.costs.tariff import lasted_s, within

if TYPE_CHECKING:
    from collections.abc import Sequence

    from armada.costs.report import Use

Unit = Literal["gpu-hours", "node-hours"]

PATTERN = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,3})?) ?(gpu|node)-?(?:hours|h)(?: since (\S+))?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Allowance:
    """So many hours.

    Attributes:
        hours: How many.
        unit: Of each GPU held, or of each run, which has one node.
        since: Unix time; None: all runs count.
    """

    hours: float
    unit: Unit
    since: float | None = None

    def used(self, found: Sequence[Use], now: float) -> float:
        """Return the hours that runs used of it."""
        seconds = 0.0
        for use in found:
            spans = within(use.spans, self.since if self.since is not None else float("-inf"), now)
            seconds += lasted_s(spans) * (use.held if self.unit == "gpu-hours" else 1)
        return seconds / 3600

    def text(self, used: float) -> str:
        """`1,204.5 of 5,000 gpu-hours (24.1 %)`."""
        return f"{used:,.1f} of {self.hours:,.10g} {self.unit} ({100 * used / self.hours:.1f} %)"
