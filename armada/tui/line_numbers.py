"""The numbers of a log's lines at its left edge: where they are known, and where the log is wide enough or a key asks for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from armada.tui.log_file import LogFile, LogLine

WIDE = 118
"""From so many columns on, lines have their numbers unasked: a terminal of 120 columns has that many inside the frame."""
NARROWEST = 40
"""In fewer columns, there is no room for them."""
DIGITS = 5
"""Lines stay in their column until there are 100,000 of them."""

NOT_WHOLE = "this copy may not begin with the log's first line: its lines have no numbers until the next sync"


class LineNumbers(NamedTuple):
    """Which lines have numbers.

    Attributes:
        is_whole: The file begins with the log's first line; else no number of a line is known.
        wanted: Whether the user wants them; None: where the log is wide enough.
        offered: They may stand beside the lines.
    """

    is_whole: bool = True
    wanted: bool | None = None
    offered: bool = False

    def are_shown(self, width: int) -> bool:
        """Whether they stand beside lines in so many columns."""
        return self.offered and width >= NARROWEST and (width >= WIDE if self.wanted is None else self.wanted)

    def toggled(self, width: int) -> LineNumbers:
        """Return them shown where they are not, and not shown where they are."""
        return self._replace(wanted=not self.are_shown(width))

    def of(self, file: LogFile | None, lines: Sequence[LogLine]) -> int | None:
        """Return the number of the first of some lines; None if it is not known."""
        return file.number_of(lines[0].start) if file is not None and lines and self.is_whole else None

    def texts(self, file: LogFile | None, lines: Sequence[LogLine], width: int) -> list[str]:
        """Return what stands before each of some neighbouring lines, at least one; empty without numbers."""
        numbers = self._numbers(file, lines) if self.are_shown(width) else []
        if not numbers or None in numbers:
            return [""] * len(lines)
        digits = max(DIGITS, len(str(numbers[-1])))
        return [f"{number:>{digits}} " for number in numbers]

    def _numbers(self, file: LogFile | None, lines: Sequence[LogLine]) -> list[int | None]:
        """Return the number of each line: between those of one rank are others."""
        if file is None or not self.is_whole:
            return []
        if file.rank is not None:
            return file.counted([line.start for line in lines])
        first = self.of(file, lines)
        return [] if first is None else [*range(first, first + len(lines))]

    def why_none(self, file: LogFile | None, lines: Sequence[LogLine]) -> str:
        """Say why lines have no numbers although they are wanted; empty if they have some, or if there are no lines."""
        numbers = self._numbers(file, lines)
        if not lines or (numbers and None not in numbers):
            return ""
        return "these lines are too far in the log to be counted" if self.is_whole else NOT_WHOLE
