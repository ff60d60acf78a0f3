"""Where a word stands in a log: which match is the present one, and how many there are."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from armada.tui.log_file import LogFile

MOST = 100_000


class Matches:
    """The lines of a log with a word. The log is read once; when it has grown, only what is new.

    Args:
        log: The log.
        word: The word.
    """

    def __init__(self, log: LogFile, word: str) -> None:
        self._log = log
        self.word = word
        self._starts = array("q")
        self._read_to = 0
        self.is_cut = False
        """There are more than are counted."""

    def of(self, log: LogFile, word: str) -> bool:
        """Whether these are the matches of a word in a log."""
        is_same = (self.word, self._log.path, self._log.rank) == (word, log.path, log.rank)
        return is_same and log.size >= self._read_to

    def extend(self, given_up: Callable[[], bool]) -> None:
        """Count what the log has got since the last call."""
        if self.is_cut:
            return
        size = self._log.size
        last = self._starts[-1] if self._starts else -1
        for start in self._log.lines_with(self.word, self._read_to, given_up):
            if len(self._starts) >= MOST:
                self.is_cut = True
                return
            if start > last:
                self._starts.append(start)
        if not given_up():
            self._read_to = self._log.line_start(size)  # the last line may grow

    def describe(self, offset: int | None) -> str:
        """Say which match the line at an offset is: `3 of 21`; where it is none of them, how many there are: `21 matches`."""
        total = f"{len(self._starts):,}{'+' if self.is_cut else ''}"
        before = bisect_right(self._starts, offset) if offset is not None else 0
        is_match = before > 0 and self._starts[before - 1] == offset
        if is_match or (self.is_cut and before == len(self._starts)):
            return f"{before:,} of {total}"
        return f"{total} match{'' if total == '1' else 'es'}"
