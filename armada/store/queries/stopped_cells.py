"""Which runs were stopped together with their sweep, or by it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from armada.errors import NotFound
from armada.foundation.validation import whole
from armada.store import sweeps, transitions

if TYPE_CHECKING:
    from armada.store.database import Database
    from armada.store.runs import Run
    from armada.store.sweeps import SweepRecord


def is_stopped_with(database: Database, run: Run, sweep: SweepRecord) -> bool:
    """Whether a sweep was stopped after the newest submission of its cell: one that was resumed since then goes on."""
    if sweep.state != "stopped":
        return False
    if run.submission <= 1:
        return True
    resumed = transitions.resumed_at(database, run.run_id)
    return sweep.stopped_at is not None and resumed is not None and resumed < sweep.stopped_at


def is_of_stopped_sweep(database: Database, run: Run) -> bool:
    """Whether a run is a cell that was stopped with its sweep; False for a run without a sweep."""
    if run.sweep is None:
        return False
    try:
        return is_stopped_with(database, run, sweeps.find(database, run.sweep))
    except NotFound:
        return False


def was_pruned(database: Database, run: Run) -> bool:
    """Whether the sweep of a run pruned its newest submission, which may have been lost before the stop reached it."""
    if run.sweep is None:
        return False
    try:
        entry: object = sweeps.find(database, run.sweep).settings
    except NotFound:
        return False
    for key in ("prune", "pruned", run.run_id):
        entry = entry.get(key) if isinstance(entry, dict) else None
    return isinstance(entry, dict) and whole(entry.get("submission")) == run.submission
