"""Standard streams that cannot end a command in its middle.

| what becomes of standard output       | the command                              | its exit code                           |
|---------------------------------------|------------------------------------------|-----------------------------------------|
| closed before the start (`>&-`)       | does all it does, and prints nowhere     | its own                                 |
| its reader has gone (`| head -1`)     | the same; `logs` ends                    | its own                                 |
| it takes no more (a full disk)        | the same; says so on standard error      | its own; `UNWRITTEN` instead of 0       |

Standard error that takes nothing changes nothing. A descriptor that was closed is opened on /dev/null, because the next file opened, such
as the store, would get its number, and a program started later would print into it.
"""

from __future__ import annotations

import errno
import io
import os
import select
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import Buffer

UNWRITTEN = 10
"""The exit code of a command that did its work and could not print what it found; see `armada.errors.EXIT_CODES`."""


class _Descriptor(io.FileIO):
    """A descriptor that takes everything; `trouble` is the first error of those that were met."""

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
                select.select([], [self], [])  # somebody else made it non-blocking, as programs on one terminal do
        return memoryview(data).nbytes


class _Text(io.TextIOWrapper):
    """Text that knows whether anything was written."""

    has_printed = False

    def write(self, text: str, /) -> int:
        self.has_printed = True
        return super().write(text)


_guarded: dict[int, _Descriptor] = {}


def guard() -> None:
    """Make the standard streams safe; what is not on the standard descriptors, such as a test's, is left alone."""
    for number, mode in ((0, os.O_RDONLY), (1, os.O_WRONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, mode)  # takes the lowest number that is free: this one
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
        errors="replace",  # a terminal without UTF-8 shows `?`, it does not end the program
        line_buffering=kept is None or kept.line_buffering or kept.write_through,
    )


def _number(stream: io.TextIOWrapper) -> int | None:
    try:
        return stream.fileno()
    except (OSError, ValueError):
        return None


def takes_no_more() -> bool:
    """Whether nothing more can be printed: nobody reads it, or the disk is full."""
    return _trouble() is not None


def checked(code: int) -> int:
    """The exit code of a command that has ended with `code`, once it is known whether all that it printed has arrived."""
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
