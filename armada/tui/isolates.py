"""Write words from right to left between isolates; it is done to what is written to the terminal.

Nothing cuts, measures, compares or copies it after that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, cast

from armada.foundation.isolates import isolated

if TYPE_CHECKING:
    from textual.driver import Driver


class _Writing(Protocol):
    def write(self, data: str) -> None: ...


class _Isolating:
    """Write to a terminal as the driver after this class does, with isolates."""

    def write(self, data: str) -> None:
        cast("_Writing", super()).write(isolated(data))


def isolating(driver: type[Driver]) -> type[Driver]:
    """Return a driver that writes isolates."""
    return cast("type[Driver]", type(driver.__name__, (_Isolating, driver), {}))
