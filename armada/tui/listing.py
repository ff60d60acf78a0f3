"""The filter and the order of Runs, kept for the next start."""

from __future__ import annotations

from typing import TYPE_CHECKING

from armada.tui import remembered
from armada.tui.arrangement import SORTS
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
        self._known: tuple[str, str, bool] | None = None

    def restore(self, arrangement: Arrangement, columns: Sequence[str], words: Vocabulary) -> None:
        """Set the remembered filter and order; an order that is none, here and now, is the usual one."""
        found, sort, reverse = remembered.listing(self.home)
        arrangement.query = Query(found, words)
        if sort in SORTS or sort in columns:
            arrangement.sort, arrangement.reverse = sort, reverse
        self._known = _of(arrangement)

    def keep(self, arrangement: Arrangement) -> None:
        """Remember the filter and the order if they changed; a filter with an error is not worth it."""
        now = _of(arrangement)
        if now == self._known or arrangement.query.error is not None:
            return
        self._known = now
        if self.writes:
            remembered.keep_listing(self.home, *now)


def _of(arrangement: Arrangement) -> tuple[str, str, bool]:
    return arrangement.query.text, arrangement.sort, arrangement.reverse
