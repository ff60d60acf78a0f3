"""One row for the runs of a sweep, which unfolds into its cells."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from armada.costs.report import Use, cost_so_far
from armada.filters.trouble import of_several
from armada.foundation.sanitize import sanitize_line
from armada.sweeps.counts import count_states, newest_runs
from armada.units import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from armada.costs.amounts import Amounts
    from armada.filters.trouble import Trouble
    from armada.tui.snapshot import RunRow
    from armada.tui.widgets.table import Span


class Fold(NamedTuple):
    """A sweep.

    Attributes:
        key: Its key in the table, which no run has.
        rows: All its runs, in the order of the table.
        is_open: Whether its cells are listed below it.
        whole: How many cells the sweep has, where a filter finds `rows`; else 0.
    """

    key: str
    rows: tuple[RunRow, ...]
    is_open: bool
    whole: int = 0

    @property
    def cells(self) -> list[RunRow]:
        """The newest run of each cell, by the numbers of the cells."""
        by_age = sorted(self.rows, key=lambda row: (row.run.cell or 0, row.run.created_at))
        newest = {run.run_id for run in newest_runs(row.run for row in by_age)}
        return [row for row in by_age if row.run.run_id in newest]

    @property
    def name(self) -> str:
        return sanitize_line(self.rows[0].run.sweep or "", 80)

    @property
    def title(self) -> str:
        count = len(self.cells)
        found = f"{count} of {self.whole} match{'es' if count == 1 else ''}" if self.whole else counted(count, "cell")
        return f"{self.name} ({found})"

    @property
    def hosts(self) -> str:
        return ",".join(dict.fromkeys(row.host for row in self.rows))

    @property
    def states(self) -> str:
        """How many cells are in which state; of those that succeeded, how many have a loss that is no number."""
        cells = self.cells
        lost = sum(row.is_no_number for row in cells)
        return count_states(row.run for row in cells) + (f" · {lost} NaN" if lost else "")

    @property
    def gpus(self) -> int:
        """How many GPUs its runs hold now."""
        return sum(len(row.run.gpus or ()) for row in self.rows if not row.run.ended)

    @property
    def share(self) -> float:
        """How much of it is done: an ended cell counts as one, a running one by its steps."""
        return sum(map(done, self.cells)) / max(1, len(self.cells))

    @property
    def ended(self) -> int:
        """How many cells have ended."""
        return sum(row.run.ended for row in self.cells)

    @property
    def lowest_loss(self) -> float | None:
        """The lowest of the newest losses that are numbers."""
        found = [row.run.loss for row in self.cells if row.run.loss is not None and math.isfinite(row.run.loss)]
        return min(found, default=None)

    @property
    def tokens_per_s(self) -> float:
        return sum(row.run.tokens_per_s or 0.0 for row in self.rows if row.run.state == "running")

    def costs(self, now: float) -> Amounts | None:
        """What its runs have cost so far, an hour of a box once; None if no price of theirs is known."""
        priced = {row.run.host: row.tariff for row in self.rows if row.tariff is not None}
        found = [row for row in self.rows if row.tariff is not None and row.run.started_at is not None]
        uses = [Use(row.id, row.run.host, len(row.run.gpus), row.spans(now)) for row in found]
        costs = cost_so_far(uses, priced)
        return costs if costs is not None and costs.is_known else None

    @property
    def kept(self) -> tuple[int, int]:
        """How many checkpoints are at home, and how many exist at home or on hosts."""
        return sum(row.kept.home for row in self.rows), sum(row.kept.home + row.kept.only_host for row in self.rows)

    @property
    def trouble(self) -> Trouble | None:
        """Why some of its runs need you; None if none does."""
        return of_several([row.trouble for row in self.rows if row.trouble is not None], "cells")

    @property
    def seen_at(self) -> float | None:
        """When the run that was not seen for the longest time was seen."""
        times = [row.run.observed_at or row.run.created_at for row in self.rows if not row.run.ended]
        return min(times, default=None)

    @property
    def state(self) -> str:
        """One state for its symbol: the one in which something still happens, else the worst end.

        A cell that succeeded with a loss that is no number counts as failed.
        """
        states = {"failed" if row.is_no_number else row.run.state for row in self.cells}
        order = ("running", "unknown", "queued", "submitted", "preparing", "failed", "cancelled")
        return next((state for state in order if state in states), "succeeded")

    @property
    def states_span(self) -> Span:
        styles = {"failed": "bad", "unknown": "warn", "succeeded": "good"}
        return self.states, styles.get(self.state, "plain")


def done(row: RunRow) -> float:
    """Return how much of a run is done: an ended one counts as one."""
    run = row.run
    if run.ended:
        return 1.0
    return min(1.0, run.step / run.total_steps) if run.step and run.total_steps else 0.0


def fold(rows: Sequence[RunRow], is_open: Callable[[str], bool], within: str = "") -> list[RunRow | Fold]:
    """Put the runs of each sweep in one row, where the first of them stands; those of an open one follow it.

    Args:
        rows: In their order.
        is_open: Tells of the key of a fold whether it is open.
        within: The group that they belong to; a sweep may have a row in several.
    """
    if not any(row.run.sweep for row in rows):
        return list(rows)
    sweeps: dict[str, list[RunRow]] = {}
    for row in rows:
        if row.run.sweep:
            sweeps.setdefault(row.run.sweep, []).append(row)
    lines: list[RunRow | Fold] = []
    for row in rows:
        if not row.run.sweep:
            lines.append(row)
        elif (members := sweeps.pop(row.run.sweep, None)) is not None:
            key = f"sweep:{row.run.sweep}:{within}"  # a run's id has no colon
            lines.append(Fold(key, tuple(members), is_open(key)))
            lines += members if is_open(key) else []
    return lines
