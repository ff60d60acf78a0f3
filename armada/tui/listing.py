"""The filter, the order and the grouping of Runs, kept for the next start."""

from __future__ import annotations

from typing import TYPE_CHECKING

from armada.tui import remembered
from armada.tui.arrangement import GROUPS, SORTS
from armada.tui.filtering import Query

if TYPE_CHECKING:
    from collections.abc import Sequence

    from armada.filters.keys import Vocabulary
    from armada.paths import HomePaths
    from armada.tui.arrangement import Arrangement


class Listing:
    """Restores what Runs listed last, and remembers what it lists now.

    Args:
        home: The home whose dashboard remembers it.
        writes: Whether it is remembered; `--read-only` remembers nothing.
    """

    def __init__(self, home: HomePaths, *, writes: bool) -> None:
        self.home = home
        self.writes = writes
        self._known: remembered.Listed | None = None

    def restore(self, arrangement: Arrangement, columns: Sequence[str], words: Vocabulary) -> None:
        """Set what is remembered; an order or a group that is none, here and now, is the usual one."""
        last = remembered.listing(self.home)
        arrangement.query = Query(last.words, words)
        if last.sort in SORTS or last.sort in columns:
            arrangement.sort, arrangement.reverse = last.sort, last.reverse
        if last.group in GROUPS or last.group in columns:
            arrangement.group = last.group
        self._known = _of(arrangement)

    def keep(self, arrangement: Arrangement) -> None:
        """Remember how runs are listed if that changed; a filter with an error is not worth it."""
        now = _of(arrangement)
        if now == self._known or arrangement.query.error is not None:
            return
        self._known = now
        if self.writes:
            remembered.keep_listing(self.home, now)


def _of(arrangement: Arrangement) -> remembered.Listed:
    return remembered.Listed(arrangement.query.text, arrangement.sort, arrangement.reverse, arrangement.group)
