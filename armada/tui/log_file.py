"""Read a log by byte offsets. It reads only the visible part, so two gigabytes open as fast as two kilobytes."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from armada.foundation.sanitize import SEQUENCE, coloured_state

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path
    from typing import BinaryIO

LINE_BYTES = 4096
"""The rest of a longer line is not shown: a million characters without a newline are a progress bar, or an attack."""
CHUNK = 65_536
SEARCHED = 1 << 20
"""How much a search reads at once before it checks whether it was cancelled."""
BEFORE = 8192
COUNTED_BYTES = 16 << 20
"""How much is read at once for the number of a line: 10 ms, once; later, only what is between. It is read where keys wait."""


LONG_BYTES = 1 << 20
"""Where a longer line ends is remembered: a progress bar may write 100 MB without a newline."""
LONG_LINES = 100
"""So many long lines are remembered at most."""


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line and its offset; `next` is the offset of the following one. `raw` is its text with control sequences."""

    start: int
    next: int
    raw: str

    @property
    def text(self) -> str:
        return SEQUENCE.sub("", self.raw)


class LogFile:
    """Opened for each call: the file may be replaced at any time."""

    rank: int | None = None
    """The only rank whose lines are read, if it is one."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.trouble = ""
        """Why the file could not be read last, as "Permission denied"; empty if it could, or if there is none."""
        self._counted = (0, 0, 1)
        """The file's inode, the start of a line in it, and the line's number."""
        self._long: dict[int, tuple[bytes, int]] = {}
        """Of long lines, by where they start: their first bytes, and up to where no newline is."""

    @property
    def size(self) -> int:
        try:
            return self.path.stat().st_size
        except OSError:
            return 0

    def read(self, start: int, size: int) -> bytes:
        """Return the bytes from an offset on; none if the file cannot be read."""
        try:
            with self.path.open("rb") as file:
                self.trouble = ""
                file.seek(start)
                return file.read(size)
        except OSError as error:
            self._note(error)
            return b""

    def _note(self, error: OSError) -> None:
        self.trouble = "" if isinstance(error, FileNotFoundError) else reason_of(error)

    def forward(self, offset: int, count: int) -> list[LogLine]:
        """Return up to `count` lines from the one that begins at `offset`."""
        found: list[LogLine] = []
        try:
            if not self.path.is_file():
                return found
            with self.path.open("rb") as file:
                self.trouble = ""
                while len(found) < count and (line := self._line_at(file, offset)) is not None:
                    found.append(line)
                    offset = line.next
        except OSError as error:
            self._note(error)
        return found

    def backward(self, offset: int, count: int) -> int:
        """Return the start of the line that is `count` lines before the one at `offset`."""
        try:
            if not self.path.is_file():
                return 0
            with self.path.open("rb") as file:
                self.trouble = ""
                while count > 0 and offset > 0:
                    offset = self._start_of(file, offset - 1)
                    count -= 1
        except OSError as error:
            self._note(error)
        return max(0, offset)

    def _line_at(self, file: BinaryIO, offset: int) -> LogLine | None:
        """Return the line that begins at an offset; None at the end of the file."""
        file.seek(offset)
        head = file.read(LINE_BYTES)
        if not head:
            return None
        end = head.find(b"\n")
        if end >= 0:
            return LogLine(offset, offset + end + 1, coloured_state(head[:end].decode("utf-8", "replace")))
        known = self._no_newline_until(file, offset, head)
        following = _after_newline(file, known or offset + len(head))
        if following - offset > LONG_BYTES:
            self._remember(offset, head, following - 1)
        return LogLine(offset, following, _long_line(file, head, following))

    def _start_of(self, file: BinaryIO, offset: int) -> int:
        """Return the start of the line with the byte at an offset; a newline belongs to the line that it ends."""
        before = max((start for start in tuple(self._long) if start < offset), default=0)
        until = self._no_newline_until(file, before)
        if until is None:
            return _line_start(file, offset)
        lowest = min(until, offset)
        found = _line_start(file, offset, lowest)
        return before if found == lowest else found

    def _remember(self, start: int, head: bytes, until: int) -> None:
        if start not in self._long and len(self._long) >= LONG_LINES:
            self._long.clear()
        self._long[start] = (head, until)

    def _no_newline_until(self, file: BinaryIO, start: int, head: bytes | None = None) -> int | None:
        """Return up to where a long line is known to have no newline; None if it is not known, or the file is another one."""
        if start not in self._long:
            return None
        known, until = self._long[start]
        if head is None:
            file.seek(start)
            head = file.read(LINE_BYTES)
        if head == known and until <= os.fstat(file.fileno()).st_size:
            return until
        del self._long[start]
        return None

    def lines_before(self, offset: int) -> list[str]:
        """Return the whole lines in the few kilobytes before the line at an offset."""
        begin = max(0, offset - BEFORE)
        lines = self.read(begin, offset - begin).decode("utf-8", "replace").split("\n")
        return [SEQUENCE.sub("", coloured_state(line)) for line in lines[1 if begin else 0 : -1]]

    def tail(self, count: int) -> int:
        """Return the start of the last `count` lines."""
        return self.backward(self.size, count)

    def number_of(self, offset: int) -> int | None:
        """Return the number of the line at an offset, from 1.

        None if that is too far to count, if only one rank is read, or if the file cannot be read.
        """
        try:
            return self._number_of(offset) if self.rank is None and self.path.is_file() else None
        except OSError as error:
            self._note(error)
            return None

    def counted(self, offsets: Iterable[int]) -> list[int | None]:
        """Return the numbers of the lines at offsets, also where only one rank is read; as `number_of`, None if one is too far."""
        try:
            return [self._number_of(offset) for offset in offsets] if self.path.is_file() else []
        except OSError as error:
            self._note(error)
            return []

    def _number_of(self, offset: int) -> int | None:
        with self.path.open("rb") as file:
            stat = os.fstat(file.fileno())
            inode, known, number = self._counted
            if inode != stat.st_ino or known > stat.st_size or offset < known - offset:
                known, number = 0, 1  # another file, one that was started again, or a line near the beginning
            first, end = sorted((known, offset))
            if end - first > COUNTED_BYTES:
                return None
            file.seek(first)
            left, found = end - first, 0
            while left > 0 and (data := file.read(min(SEARCHED, left))):
                found += data.count(b"\n")
                left -= len(data)
        self._counted = (stat.st_ino, offset, number + (found if offset >= known else -found))
        return self._counted[2]

    def line_start(self, offset: int) -> int:
        """Return the start of the line that contains a byte."""
        try:
            if offset > 0 and self.path.is_file():
                with self.path.open("rb") as file:
                    return self._start_of(file, offset)
        except OSError as error:
            self._note(error)
        return 0

    def find_back(self, word: str, before: int, given_up: Callable[[], bool] = lambda: False) -> int | None:
        """Return the start of the last line before an offset that contains a word. Case matters only if the word has capital letters."""
        fold, wanted = word == word.lower(), word.encode()
        if not wanted or not self.path.is_file():
            return None
        with self.path.open("rb") as file:
            end = before
            while end > 0 and not given_up():
                start = max(0, end - SEARCHED)
                file.seek(start)
                data = file.read(min(end - start + len(wanted) - 1, before - start))
                at = (data.lower() if fold else data).rfind(wanted)
                if at >= 0:
                    return _line_start(file, start + at)
                end = start
        return None

    def find_forward(self, word: str, after: int, given_up: Callable[[], bool] = lambda: False) -> int | None:
        """Return the start of the first line after the one at an offset that contains a word."""
        fold, wanted = word == word.lower(), word.encode()
        if not wanted or not self.path.is_file():
            return None
        with self.path.open("rb") as file:
            start = _after_newline(file, after) if after >= 0 else 0
            while not given_up():
                file.seek(start)
                data = file.read(SEARCHED + len(wanted) - 1)
                at = (data.lower() if fold else data).find(wanted)
                if at >= 0:
                    return _line_start(file, start + at)
                if len(data) < SEARCHED:
                    return None
                start += SEARCHED
        return None

    def lines_with(self, word: str, after: int, given_up: Callable[[], bool] = lambda: False) -> Iterator[int]:
        """Yield the start of each line with a word, from the line at an offset on."""
        fold, wanted = word == word.lower(), word.encode()
        if not wanted or not self.path.is_file():
            return
        with self.path.open("rb") as file:
            start, last = after, -1
            while not given_up():
                file.seek(start)
                data = file.read(SEARCHED + len(wanted) - 1)
                seen, at = (data.lower() if fold else data), -1
                while (at := seen.find(wanted, at + 1)) >= 0:
                    begin = seen.rfind(b"\n", 0, at) + 1
                    line = start + begin if begin else _line_start(file, start + at)
                    if line > last:
                        last = line
                        yield line
                    at = following - 1 if (following := seen.find(b"\n", at) + 1) else len(seen)
                if len(data) < SEARCHED:
                    return
                start += SEARCHED


def reason_of(error: OSError) -> str:
    """Return why a file cannot be read, without its path: "Permission denied"."""
    return error.strerror or str(error)


def _long_line(file: BinaryIO, head: bytes, following: int) -> str:
    """Return the newest state of a line that is overwritten by carriage returns, else the line's beginning."""
    if len(head) < LINE_BYTES:
        return coloured_state(head.decode("utf-8", "replace"))
    file.seek(following - LINE_BYTES)
    tail = file.read(LINE_BYTES).rstrip(b"\r\n")
    if b"\r" in tail:
        return coloured_state(tail.decode("utf-8", "replace"))
    return coloured_state(head.decode("utf-8", "replace")) + " …"


def _after_newline(file: BinaryIO, offset: int) -> int:
    file.seek(offset)
    while data := file.read(CHUNK):
        if (at := data.find(b"\n")) >= 0:
            return offset + at + 1
        offset += len(data)
    return offset


def _line_start(file: BinaryIO, offset: int, lowest: int = 0) -> int:
    """Return the start of the line with the byte at `offset`; `lowest` if there is no newline from there to it."""
    end = offset
    while end > lowest:
        start = max(lowest, end - CHUNK)
        file.seek(start)
        at = file.read(end - start).rfind(b"\n")
        if at >= 0:
            return start + at + 1
        end = start
    return lowest
