"""How work that takes time says how far it is: one protocol for whoever works, shows progress or records it.

Launches, syncs, provisioning, recovery and release report to a `Progress`. `armada.cli.progress.Reporter` prints what it is told,
`armada.store.running_operations.OperationProgress` records it.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Protocol


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


class TransfersAs:
    """Passes on what is going on, transfers under a name of its own, and no stages: whoever asked for the work says what is done.

    Args:
        name: The part that all transfers are of.
        progress: Who hears of it.
    """

    def __init__(self, name: str, progress: Progress) -> None:
        self._name = name
        self._progress = progress

    def stage(self, name: str, message: str) -> None: ...

    def now(self, name: str, message: str, fraction: float | None = None) -> None:
        self._progress.now(name, message, fraction)

    def transfer(self, name: str, what: str, seen: TransferProgress) -> None:
        del name
        self._progress.transfer(self._name, what, seen)


def with_fraction(message: str, fraction: float | None) -> str:
    """Add to a sentence how much is done, in percent, where that is known."""
    return message if fraction is None else f"{message}, {fraction:.0%}"
