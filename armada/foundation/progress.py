"""How work that takes time says how far it is: one protocol for whoever works, shows progress or records it.

Launches, syncs, provisioning, recovery and release report to a `Progress`. `armada.cli.progress.Reporter` prints what it is told,
`armada.store.running_operations.OperationProgress` records it.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True)
class TransferProgress:
    """How far a transfer is; the total is None where only the far side knows it."""

    done_bytes: int
    total_bytes: int | None
    rate_bytes_per_s: float | None


class Progress(Protocol):
    """Whoever wants to know how work goes on; `name` is one word for the part of it: plan, provision, sync."""

    def stage(self, name: str, message: str) -> None:
        """Hear that a part is done."""

    def now(self, name: str, message: str, fraction: float | None = None) -> None:
        """Hear what is going on, until the next call.

        Args:
            name: The part.
            message: A sentence.
            fraction: How much of it is done, between 0 and 1, where that is known.
        """

    def transfer(self, name: str, what: str, seen: TransferProgress) -> None:
        """Hear how far the transfer of something is."""


class NullProgress:
    """Nobody wants to know."""

    def stage(self, name: str, message: str) -> None: ...

    def now(self, name: str, message: str, fraction: float | None = None) -> None: ...

    def transfer(self, name: str, what: str, seen: TransferProgress) -> None: ...


class JoinedProgress:
    """Tells several what it hears, in their order."""

    def __init__(self, *all_of: Progress) -> None:
        self._all = all_of

    def stage(self, name: str, message: str) -> None:
        for each in self._all:
            each.stage(name, message)

    def now(self, name: str, message: str, fraction: float | None = None) -> None:
        for each in self._all:
            each.now(name, message, fraction)

    def transfer(self, name: str, what: str, seen: TransferProgress) -> None:
        for each in self._all:
            each.transfer(name, what, seen)


class SerialProgress:
    """Lets several threads tell one `Progress`, which hears them one at a time."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._lock = threading.Lock()

    def stage(self, name: str, message: str) -> None:
        with self._lock:
            self._progress.stage(name, message)

    def now(self, name: str, message: str, fraction: float | None = None) -> None:
        with self._lock:
            self._progress.now(name, message, fraction)

    def transfer(self, name: str, what: str, seen: TransferProgress) -> None:
        with self._lock:
            self._progress.transfer(name, what, seen)


class TransfersOnly:
    """Passes transfers on, under a name of its own; whoever asked for the work says the rest.

    Args:
        name: The part that all transfers are of.
        tell: Told what is transferred, and how far it is.
    """

    def __init__(self, name: str, tell: Callable[[str, str, TransferProgress], None]) -> None:
        self._name = name
        self._tell = tell

    def stage(self, name: str, message: str) -> None: ...

    def now(self, name: str, message: str, fraction: float | None = None) -> None: ...

    def transfer(self, name: str, what: str, seen: TransferProgress) -> None:
        del name
        self._tell(self._name, what, seen)


def with_fraction(message: str, fraction: float | None) -> str:
    """Add to a sentence how much is done, in percent, where that is known."""
    return message if fraction is None else f"{message}, {fraction:.0%}"
