"""The protocol by which long operations report their progress to code that displays or records it.

Launches, syncs, provisioning, recovery and release report to a `Progress`. `armada.cli.progress.Reporter` prints the
reports,
`armada.store.running_operations.OperationProgress` records them.
"""

from __future__ import annotations

import threading
from typing import NamedTuple, Protocol


class TransferProgress(NamedTuple):
    """The progress of a transfer. The total is None if only the sender knows it."""

    done_bytes: int
    total_bytes: int | None
    rate_bytes_per_s: float | None


class Progress(Protocol):
    """A receiver of progress reports. `name` is one word for the part of the work: plan, provision, sync."""

    def stage(self, name: str, message: str) -> None:
        """Report that a part is done."""

    def now(self, name: str, message: str, fraction: float | None = None) -> None:
        """Report the current activity, which lasts until the next call.

        Args:
            name: The part.
            message: A sentence.
            fraction: The completed fraction between 0 and 1, if known.
        """

    def transfer(self, name: str, what: str, seen: TransferProgress) -> None:
        """Report the progress of one transfer."""


class NullProgress:
    """Ignores all reports."""

    def stage(self, name: str, message: str) -> None: ...

    def now(self, name: str, message: str, fraction: float | None = None) -> None: ...

    def transfer(self, name: str, what: str, seen: TransferProgress) -> None: ...


class JoinedProgress:
    """Passes reports on to several receivers, in their order."""

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
    """Lets several threads report to one `Progress`, one at a time."""

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
    """Passes on activities, and transfers under one name, but no completed parts: the caller reports those.

    Args:
        name: The part to which all transfers belong.
        progress: The receiver.
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
    """Append the completed fraction in percent to a sentence, if known."""
    return message if fraction is None else f"{message}, {fraction:.0%}"
