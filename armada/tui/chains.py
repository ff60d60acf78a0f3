"""Chains of runs: a run, and those that follow it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from armada.tui.snapshot import RunRow


class Chains:
    """Which runs follow one another.

    A run follows the one that the store names, else the run of the same cell of a sweep that was launched before it.
    What the store names may be gone: its followers are still one chain.

    Args:
        rows: All runs.
    """

    def __init__(self, rows: Iterable[RunRow]) -> None:
        by_age = sorted(rows, key=lambda row: (row.run.created_at, row.id))
        self._before: dict[str, str] = {}
        cells: dict[tuple[str, int | None], str] = {}
        for row in by_age:
            run = row.run
            if run.follows is not None and run.follows != run.run_id:
                self._before[run.run_id] = run.follows
            elif run.sweep is not None and (run.sweep, run.cell) in cells:
                self._before[run.run_id] = cells[run.sweep, run.cell]
            if run.sweep is not None:
                cells[run.sweep, run.cell] = run.run_id
        self._chained = set(self._before) | set(self._before.values())
        self._places = {row.id: place for place, row in enumerate(by_age)}

    def root(self, run_id: str) -> str | None:
        """Return the id of the first run of a chain; None for a run that is in none."""
        return self._way(run_id)[0] if run_id in self._chained else None

    def depth(self, run_id: str) -> int:
        """Return how many runs come before this one, from the first of its chain."""
        return len(self._way(run_id)) - 1

    def in_order(self, rows: Sequence[RunRow]) -> list[RunRow]:
        """Sort the runs of one chain so that each stands under the one that it follows, older ones first."""
        return sorted(rows, key=lambda row: [(self._places.get(each, -1), each) for each in self._way(row.id)])

    def _way(self, run_id: str) -> list[str]:
        """Return the ids from the first of the chain to this one. Damaged data may go in a circle: it ends there."""
        way, seen = [run_id], {run_id}
        while (before := self._before.get(way[-1])) is not None and before not in seen:
            way.append(before)
            seen.add(before)
        return way[::-1]
