"""The lines of one rank, in a log that several ranks write and whose lines name their rank."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from armada.tui.log_file import LogFile, LogLine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

READ = 1 << 20
MOST_READ = 8 << 20
"""The lines for one screen are searched in so many bytes: a rank may write none in a gigabyte."""
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

    def forward(self, offset: int, count: int) -> list[LogLine]:
        found: list[LogLine] = []
        at, end = offset, offset + MOST_READ
        while len(found) < count and at < end and (data := self._block(at)):
            for start, rank in _tagged(data):
                if rank == self.rank and len(found) < count:
                    found += super().forward(at + start, 1)
            at += len(data)
        return found

    def backward(self, offset: int, count: int) -> int:
        """Return the start of the line of the rank that is `count` such lines before `offset`.

        If there are fewer in the bytes that are searched, it is the line at which the search ended.
        """
        end, least = offset, max(0, offset - MOST_READ)
        while count > 0 and end > least:
            begin = self.line_start(max(0, end - READ))
            begin = begin if begin < end else super().backward(end, 1)
            starts = [start for start, rank in _tagged(self.read(begin, end - begin)) if rank == self.rank]
            if len(starts) >= count:
                return begin + starts[-count]
            count, end = count - len(starts), begin
        return end

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
        """Read whole lines from the one at an offset; a piece of it if the line is longer than what is read at once."""
        data = self.read(at, READ)
        end = data.rfind(b"\n") + 1
        return data[:end] if end and len(data) == READ else data
