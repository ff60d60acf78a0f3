"""The lines of one rank, in a log that several ranks write and whose lines name their rank."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from armada.tui.log_file import LogFile, LogLine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

READ = 1 << 20
MOST_READ = 2 << 20
"""The lines for one screen are searched in so many bytes, where keys wait: a rank may write none in a gigabyte."""
WITHIN = 60
"""A line names its rank near its beginning; a time may stand before it."""
RANKS = 1024

# `[rank3]:` (torch), `[default3]:` (torchrun --tee), `[rank: 3]` (Lightning), `[1,3]<stdout>:` (mpirun).
_NAMED = (
    r"\[(?:(?:[rR]ank|RANK|default|worker|trainer)[ :]{0,2}(\d{1,6})\]:? ?|\d{1,4},(\d{1,6})\]<std(?:out|err)>:? ?)"
)
_TEXT, _BYTES = re.compile(_NAMED), re.compile(_NAMED.encode())


class RankTag(NamedTuple):
    """Which rank a line names, and where in the line."""

    rank: int
    start: int
    end: int


def rank_tag(line: str) -> RankTag | None:
    """Return the rank that a line names; None if it names none."""
    found = _TEXT.search(line, 0, 2 * WITHIN)
    if found is None or found.start() > WITHIN:
        return None
    return RankTag(int(found[1] or found[2]), found.start(), found.end())


def _tagged(data: bytes) -> Iterator[tuple[int, int]]:
    """Yield the start of each line that names a rank, with that rank. `data` begins with a line."""
    last = -1
    for found in _BYTES.finditer(data):
        start = data.rfind(b"\n", 0, found.start()) + 1
        if start != last and found.start() - start <= WITHIN:
            last = start
            yield start, int(found[1] or found[2])


def ranks_in(log: LogFile) -> list[int]:
    """Return the ranks that lines near the beginning and the end of a log name."""
    found: set[int] = set()
    for start in {0, log.line_start(max(0, log.size - READ))}:
        found |= {rank for _, rank in _tagged(log.read(start, READ))}
    return sorted(found)[:RANKS]


class RankLines(LogFile):
    """A log of which only the lines of one rank are read; offsets are those of the whole log.

    Args:
        path: The log.
        rank: The rank.
    """

    def __init__(self, path: Path, rank: int) -> None:
        super().__init__(path)
        self.rank = rank
        self._inode = 0
        self._none = (0, 0)
        """From where to where no line of the rank begins: what was searched in vain is not searched each second."""

    def forward(self, offset: int, count: int) -> list[LogLine]:
        found: list[LogLine] = []
        at, read, is_line = self._after_gap(offset), 0, True
        while len(found) < count and read < MOST_READ and (data := self._block(at)):
            starts = [start for start, rank in _tagged(data) if rank == self.rank]
            for start in starts[: count - len(found)]:
                found += super().forward(at + start, 1)
            if is_line:  # not the rest of one that is longer than what is read at once
                self._note_gap(at, data, starts)
            is_line = data.endswith(b"\n")
            at, read = self._after_gap(at + len(data)), read + len(data)
        return found

    def backward(self, offset: int, count: int) -> int:
        """Return the start of the line of the rank that is `count` such lines before `offset`.

        If there are fewer in the bytes that are searched, it is the line at which the search ended.
        """
        end, read = self._before_gap(offset), 0
        while count > 0 and end > 0 and read < MOST_READ:
            begin = max(self.line_start(max(0, end - READ)), self._gap[1] if self._gap[1] < end else 0)
            begin = begin if begin < end else super().backward(end, 1)
            data = self.read(begin, end - begin)
            starts = [start for start, rank in _tagged(data) if rank == self.rank]
            self._note_gap(begin, data, starts)
            if len(starts) >= count:
                return begin + starts[-count]
            count, end, read = count - len(starts), self._before_gap(begin), read + len(data)
        return end

    def search_last(self, given_up: Callable[[], bool] = lambda: False) -> int | None:
        """Return the start of the last line of the rank, however far back; None if there is none, or it was cancelled."""
        end = self.size
        while end > 0 and not given_up():
            end = self.backward(end, 1)
            if self._has(end):
                return end
        return None

    def _note_gap(self, at: int, data: bytes, starts: Sequence[int]) -> None:
        """Remember where no line of the rank begins: after the last one in some data. Of two stretches, the longer is kept.

        Args:
            at: Where the data begins.
            data: Whole lines; the last one may not be complete yet.
            starts: Where lines of the rank begin in it.
        """
        after = data.find(b"\n", starts[-1]) + 1 if starts else 0
        begin, end = at + after, at + data.rfind(b"\n") + 1
        if starts and not after:
            return  # that line is not complete
        first, last = self._gap
        if begin <= last and end >= first:
            begin, end = min(first, begin), max(last, end)
        if end - begin > last - first:
            self._none = (begin, end)

    def _after_gap(self, offset: int) -> int:
        begin, end = self._gap
        return end if begin <= offset < end else offset

    def _before_gap(self, offset: int) -> int:
        begin, end = self._gap
        return begin if begin < offset <= end else offset

    @property
    def _gap(self) -> tuple[int, int]:
        """Where no line of the rank begins; nowhere in another file, or in one that was started again."""
        try:
            stat = self.path.stat()
        except OSError:
            return (0, 0)
        if stat.st_ino != self._inode or self._none[1] > stat.st_size:
            self._inode, self._none = stat.st_ino, (0, 0)
        return self._none

    def find_back(self, word: str, before: int, given_up: Callable[[], bool] = lambda: False) -> int | None:
        found = super().find_back(word, before, given_up)
        while found is not None and not self._has(found):
            found = super().find_back(word, found, given_up)
        return found

    def find_forward(self, word: str, after: int, given_up: Callable[[], bool] = lambda: False) -> int | None:
        found = super().find_forward(word, after, given_up)
        while found is not None and not self._has(found):
            found = super().find_forward(word, found, given_up)
        return found

    def lines_with(self, word: str, after: int, given_up: Callable[[], bool] = lambda: False) -> Iterator[int]:
        return (start for start in super().lines_with(word, after, given_up) if self._has(start))

    def _has(self, start: int) -> bool:
        return any(rank == self.rank for at, rank in _tagged(self.read(start, 2 * WITHIN)) if at == 0)

    def _block(self, at: int) -> bytes:
        """Read whole lines from the one at an offset, up to the gap; a piece of a line that is longer than what is read at once."""
        gap = self._gap[0]
        size = min(READ, gap - at) if gap > at else READ
        data = self.read(at, size)
        end = data.rfind(b"\n") + 1
        return data[:end] if end and len(data) == READ else data
