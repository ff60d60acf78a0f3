"""Standard streams that cannot end a command before its work is done.

| standard output                       | the command                              | its exit code                           |
|---------------------------------------|------------------------------------------|-----------------------------------------|
| closed before the start (`>&-`)       | does its work and prints nothing         | its own                                 |
| its reader has closed it (`| head -1`)| the same; `logs` ends                    | its own                                 |
| it cannot be written (a full disk)    | the same; reports it on standard error   | its own; `UNWRITTEN` instead of 0       |

An unwritable standard error has no effect. A closed standard descriptor is opened on /dev/null. Otherwise the next
opened file, such as the store, would get its number, and a program started later would print into that file.

A live line, such as progress, is erased before anything else is printed on either stream.
"""

from __future__ import annotations

import errno
import io
import os
import select
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import TextIO

    from typing_extensions import Buffer

ERASED = "\r\x1b[K"
"""What erases the line of the cursor on a terminal."""
UNWRITTEN = 10
"""The exit code of a command that did its work but could not print its result; see `armada.errors.EXIT_CODES`."""


class _Descriptor(io.FileIO):
    """A descriptor that accepts everything. `trouble` is the first error that occurred."""

    trouble: OSError | None = None

    def write(self, data: Buffer, /) -> int:
        while self.trouble is None:
            try:
                written = super().write(data)
            except OSError as error:
                self.trouble = error
            else:
                if written is not None:
                    return written
                select.select([], [self], [])  # another program on the same terminal made it non-blocking
        return memoryview(data).nbytes


class _Text(io.TextIOWrapper):
    """A text stream that records whether anything was written. A live line on the terminal is ended first."""

    has_printed = False

    def write(self, text: str, /) -> int:
        end_live_line()
        self.has_printed = True
        return super().write(text)


_guarded: dict[int, _Descriptor] = {}
_live: list[TextIO] = []
"""The terminal's stream that has a live line now; at most one."""


def show_live_line(stream: TextIO, text: str) -> None:
    """Show a line that the next one replaces, and that is erased before anything else is printed.

    Args:
        stream: A terminal.
        text: At most as wide as the terminal.
    """
    end_live_line()
    stream.write(text)
    stream.flush()
    _live.append(stream)


def has_live_line(stream: TextIO) -> bool:
    """Return whether a stream shows a live line now."""
    return stream in _live


def end_live_line() -> bool:
    """Erase the live line; return whether there was one."""
    try:
        stream = _live.pop()
    except IndexError:  # also where another thread was faster
        return False
    if not stream.closed:
        stream.write(ERASED)
        stream.flush()
    return True


def guard() -> None:
    """Make the standard streams safe. Streams on other descriptors, such as those of a test, stay unchanged."""
    for number, mode in ((0, os.O_RDONLY), (1, os.O_WRONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, mode)  # it gets the lowest free number, which is this one
    if sys.stdin is None:
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115  # None where 0 was closed
    sys.stdout = _guard(sys.stdout, 1)
    sys.stderr = _guard(sys.stderr, 2)


def _guard(stream: object, number: int) -> io.TextIOWrapper:
    if stream is not None and not (isinstance(stream, io.TextIOWrapper) and _number(stream) == number):
        return stream  # type: ignore[return-value]  # a test's
    kept = stream if isinstance(stream, io.TextIOWrapper) else None
    if kept is not None:
        kept.flush()
    raw = _guarded[number] = _Descriptor(number, "wb", closefd=False)
    return _Text(
        io.BufferedWriter(raw),
        encoding=kept.encoding if kept is not None else "utf-8",
        errors="replace",  # a terminal without UTF-8 shows `?` and does not end the program
        line_buffering=kept is None or kept.line_buffering or kept.write_through,
    )


def _number(stream: io.TextIOWrapper) -> int | None:
    try:
        return stream.fileno()
    except (OSError, ValueError):
        return None


def takes_no_more() -> bool:
    """Return whether nothing more can be printed: the reader has closed the stream, or the disk is full."""
    return _trouble() is not None


def checked(code: int) -> int:
    """Return the exit code of a command that ended with `code`, after checking that all its output was written."""
    end_live_line()
    trouble = _trouble()
    if trouble is None or trouble.errno == errno.EPIPE:
        return code
    sys.stderr.write(f"armada: standard output: {trouble.strerror}; what was printed is not complete\n")
    return code or UNWRITTEN


def _trouble() -> OSError | None:
    try:
        sys.stdout.flush()
    except OSError as error:  # a stream that is not guarded
        return error
    raw = _guarded.get(1)
    return raw.trouble if raw is not None else None
