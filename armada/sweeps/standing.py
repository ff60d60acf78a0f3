"""Sum up a sweep: its cells, how many are in which state, and which are best by a metric."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from armada.foundation.sanitize import sanitize_line
from armada.protocol.recorded import recorded_spec
from armada.store import metrics, runs, sweeps
from armada.sweeps.counts import newest_runs
from armada.units import counted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from armada.store.database import Database
    from armada.store.runs import Run


@dataclass(frozen=True, slots=True)
class CellStanding:
    """One cell as it stands.

    Attributes:
        run: Its newest run.
        label: What differs, in a few words.
        values: The same by key.
        value: Of the metric, if it is known.
        step: Where the metric had that value.
    """

    run: Run
    label: str
    values: Mapping[str, Any]
    value: float | None = None
    step: int | None = None


def cells_of(database: Database, sweep: str, metric: str | None = None, goal: str = "min") -> list[CellStanding]:
    """Return the cells of a sweep by number.

    Args:
        database: The store.
        sweep: Its name.
        metric: What to look up of each cell: its best value.
        goal: `min` or `max`.
    """
    found = []
    for run in newest_runs(runs.of_sweep(database, sweep)):
        told = recorded_spec(runs.spec(database, run.run_id)).sweep
        label = sanitize_line(told.label, 200) if told is not None and told.label else ""
        values = told.values if told is not None and told.values is not None else {}
        step, value = _best(database, run.run_id, metric, goal) if metric else (None, None)
        found.append(CellStanding(run, label, values, value, step))
    return found


def ranked(cells: Sequence[CellStanding], goal: str) -> list[CellStanding]:
    """The cells with a value of the metric, the best first."""
    having = [cell for cell in cells if cell.value is not None]
    return sorted(having, key=lambda cell: (cell.value or 0.0) * (1 if goal == "min" else -1))


def metric_names(database: Database, cells: Sequence[CellStanding]) -> list[str]:
    """The names of all metrics that cells have."""
    return sorted({name for cell in cells for name in metrics.names(database, cell.run.run_id)})


def others_waiting(database: Database, host: str, own: str, *, gpus: bool) -> list[str]:
    """Say which other sweeps have cells on a host that have not ended.

    Args:
        database: The store.
        host: Its name.
        own: The sweep that is planned.
        gpus: Whether its cells take GPUs, for which all runs of a host wait together.
    """
    both = "a free GPU goes to the cell that has waited longest"
    if not gpus:
        both = "each counts its own cells, so both together may start more than the host has cores; --parallel allows fewer"
    found = []
    for name in sweeps.active_on(database, host):
        left = [run for run in runs.of_sweep(database, name) if run.host == host and not run.ended]
        if name != own and left:
            found.append(f"{name} is not done on {host}, {counted(len(left), 'cell')} left: {both}")
    return found


def _best(database: Database, run_id: str, metric: str, goal: str) -> tuple[int | None, float | None]:
    best: tuple[int | None, float | None] = (None, None)
    for step, value in metrics.curve(database, run_id, metric):
        if value is None or not math.isfinite(value):
            continue
        if best[1] is None or (value < best[1] if goal == "min" else value > best[1]):
            best = (step, value)
    return best
