"""Lines from a host, and the bytes that follow some of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class LineTooLong(Exception):
    """A line exceeds the limit."""


class LineReader:
    """Splits a channel's data into lines, at any piece boundaries. It holds at most one line and one piece in memory.

    Args:
        read: Returns the next piece, or b"" at the end.
        limit_bytes: The longest line, without its newline.
    """

    def __init__(self, read: Callable[[], bytes], limit_bytes: int) -> None:
        self._read = read
        self._limit_bytes = limit_bytes
        self._piece = b""
        self._start = 0
        self.received_bytes = 0

    def line(self, *, drop_long: bool = False) -> bytes | None:
        """Return the next line without its newline. Return None at the end; an incomplete last line is dropped.

        Args:
            drop_long: Skip lines that exceed the limit.

        Raises:
            LineTooLong: A line exceeds the limit. It is raised as soon as that is known.
        """
        parts: list[bytes] = []
        held_bytes = 0
        while self._has_more():
            end = self._piece.find(b"\n", self._start)
            part = self._piece[self._start : end if end >= 0 else len(self._piece)]
            self._start += len(part) + (end >= 0)
            held_bytes += len(part)
            if held_bytes <= self._limit_bytes:
                parts.append(part)
            elif not drop_long:
                raise LineTooLong
            else:
                parts.clear()
            if end >= 0 and held_bytes <= self._limit_bytes:
                return b"".join(parts)
            if end >= 0:
                held_bytes = 0
        return None

    def some(self, most_bytes: int) -> bytes | memoryview:
        """Return the next bytes, at least one and at most `most_bytes`; empty at the end."""
        if not self._has_more():
            return b""
        is_whole = self._start == 0 and len(self._piece) <= most_bytes
        part = self._piece if is_whole else memoryview(self._piece)[self._start : self._start + most_bytes]
        self._start += len(part)
        return part

    def _has_more(self) -> bool:
        if self._start < len(self._piece):
            return True
        self._piece, self._start = self._read(), 0
        self.received_bytes += len(self._piece)
        return bool(self._piece)
