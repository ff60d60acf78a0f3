"""Runs that stay at the top of the list, for as long as the user wants."""

from __future__ import annotations

from typing import TYPE_CHECKING

from armada.tui import remembered

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from armada.paths import HomePaths


class Pins:
    """The pinned runs of a home, as the dashboard remembers them.

    Args:
        home: The home whose dashboard remembers them.
        writes: Whether they are remembered; with `--read-only` they last until the dashboard is closed.
    """

    def __init__(self, home: HomePaths, *, writes: bool) -> None:
        self._home = home
        self._writes = writes
        self.ids = frozenset(remembered.pinned(home))

    def set(self, run_ids: Iterable[str], *, on: bool, known: Collection[str] | None = None) -> bool:
        """Pin runs, or take their pins away.

        Args:
            run_ids: The runs.
            on: Whether they are pinned from now on.
            known: All runs that there are: pins of others are forgotten. None if that is not known.

        Returns:
            False if more runs would be pinned than are remembered: then nothing changes.
        """
        # Another dashboard of this home may have pinned others meanwhile.
        before = remembered.pinned(self._home) if self._writes else sorted(self.ids)
        asked = set(run_ids)
        kept = [run_id for run_id in before if run_id not in asked and (known is None or run_id in known)]
        now = [*kept, *(sorted(asked) if on else ())]
        if len(now) > remembered.MOST_PINNED:
            return False
        self.ids = frozenset(now)
        if self._writes:
            remembered.keep_pinned(self._home, now)
        return True
