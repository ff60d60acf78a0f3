"""Show the progress of long commands: a live line on a terminal, plain lines in a pipe."""

from __future__ import annotations

import shutil
import sys
import time
from typing import TYPE_CHECKING

from armada.foundation.progress import with_fraction
from armada.foundation.sanitize import sanitize_line
from armada.foundation.standard_streams import end_live_line, has_live_line, show_live_line
from armada.units import amount, span

if TYPE_CHECKING:
    from typing import TextIO

    from armada.foundation.progress import TransferProgress

PLAIN_EVERY_S = 10.0
"""In a pipe, what changes all the time is said so often."""


def say(sentence: str) -> None:
    """Print a message on standard error beside the command's output, such as a lost connection."""
    end_live_line()
    sys.stderr.write(f"armada: {sentence}\n")
    sys.stderr.flush()


class Reporter:
    """A `Progress` that writes finished stages as lines, and the current step as one line that is overwritten.

    Args:
        stream: Where to; stderr where stdout carries JSON.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stdout
        self._terminal = self._stream.isatty()
        self._live = ""
        self._said_at = 0.0

    def stage(self, name: str, message: str) -> None:
        """Print a finished stage."""
        self._erase()
        self._stream.write(f" {name:<10} {sanitize_line(message, 400)}\n")
        self._stream.flush()

    def line(self, message: str = "") -> None:
        self._erase()
        self._stream.write(message + "\n")
        self._stream.flush()

    def now(self, name: str, message: str, fraction: float | None = None) -> None:
        """Show the current step; the next call replaces it."""
        text = f" {name:<10} {sanitize_line(with_fraction(message, fraction), 400)}"
        if self._terminal:
            width = shutil.get_terminal_size().columns
            text = text[: width - 1]
            if text != self._live or not has_live_line(self._stream):
                show_live_line(self._stream, text)
            self._live = text
        elif time.monotonic() - self._said_at >= PLAIN_EVERY_S and text != self._live:
            self._said_at = time.monotonic()
            self._live = text
            self._stream.write(text + "\n")
            self._stream.flush()

    def transfer(self, name: str, what: str, seen: TransferProgress) -> None:
        """Show a transfer's progress, rate and remaining time."""
        text = f"{what} {amount(seen.done_bytes)}"
        if seen.total_bytes:
            text += f" of {amount(seen.total_bytes)}"
        if seen.rate_bytes_per_s:
            text += f" · {amount(seen.rate_bytes_per_s)}/s"
            if seen.total_bytes and seen.total_bytes > seen.done_bytes:
                text += f" · {span((seen.total_bytes - seen.done_bytes) / seen.rate_bytes_per_s)} left"
        self.now(name, text)

    def clear(self) -> None:
        """Remove the current step; its result is printed elsewhere."""
        self._erase()
        self._stream.flush()

    def _erase(self) -> None:
        end_live_line()
        self._live = ""
