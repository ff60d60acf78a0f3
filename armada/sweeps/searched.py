"""Read how far a search is: its settings, and its trials from the cells in the store."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from armada.config.sweep import SearchCells
from armada.foundation.sanitize import sanitize_line
from armada.store import sweeps
from armada.sweeps.pruning import pruning_of
from armada.sweeps.rules import settings_of
from armada.sweeps.search import Trial
from armada.sweeps.standing import cells_of, ranked
from armada.units import counted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from armada.store.database import Database
    from armada.store.sweeps import SweepRecord
    from armada.sweeps.cells import Draft
    from armada.sweeps.pruning import Pruned
    from armada.sweeps.standing import CellStanding


@dataclass(frozen=True, slots=True)
class SearchRecord:
    """A search, as the settings of its sweep keep it.

    Attributes:
        cells: What is searched.
        experiment: The experiment's values, without `sweep:`: edits of the file change no later trial.
        since: Failures of trials up to this number were seen by a person.
        note: Why the newest round failed; empty if it did not.
    """

    cells: SearchCells
    experiment: Mapping[str, Any]
    since: int = 0
    note: str = ""


def settings_for(draft: Draft, search: SearchCells) -> dict[str, object]:
    """What the settings of a sweep keep of a search."""
    experiment = {key: value for key, value in draft.document.data.items() if key != "sweep"}
    return {"search": {**search.model_dump(mode="json"), "experiment": experiment}}


def search_of(record: SweepRecord) -> SearchRecord | None:
    """The search of a sweep; None if it has none, or a newer armada wrote what this one cannot read."""
    told = record.settings.get("search")
    if not isinstance(told, dict) or not isinstance(told.get("experiment"), dict):
        return None
    own = {key: value for key, value in told.items() if key in SearchCells.model_fields}
    try:
        cells = SearchCells.model_validate(own, strict=False)
    except ValidationError:
        return None
    since, note = told.get("since"), told.get("note")
    return SearchRecord(
        cells,
        told["experiment"],
        since if isinstance(since, int) else 0,
        note if isinstance(note, str) else "",
    )


def change_search(database: Database, name: str, **changes: object) -> None:
    """Change what the settings of a sweep keep of its search."""
    with database.transaction():
        record = sweeps.find(database, name)
        told = record.settings.get("search")
        if isinstance(told, dict) and any(told.get(key) != value for key, value in changes.items()):
            sweeps.change_settings(database, name, {**record.settings, "search": {**told, **changes}})


def last_number(record: SweepRecord) -> int:
    """The largest number that a cell of a sweep ever had."""
    told = record.settings.get("last")
    return told if isinstance(told, int) else 0


def trials_of(database: Database, record: SweepRecord, now: float) -> list[Trial]:
    """The trials of a search by number, from the cells in the store."""
    settings = settings_of(record)
    cells = cells_of(database, record.name, settings.metric, settings.decided_goal)
    return [_trial(cell, settings.metric or "", now, _pruned(record)) for cell in cells]


def _pruned(record: SweepRecord) -> Mapping[str, Pruned]:
    pruning = pruning_of(record)
    return pruning.pruned if pruning is not None else {}


def _trial(cell: CellStanding, metric: str, now: float, pruned: Mapping[str, Pruned]) -> Trial:
    run = cell.run
    number = run.cell or 0
    if not run.is_settled(now):
        return Trial(number, cell.values, "pending", run_id=run.run_id)
    if run.state == "succeeded" and cell.value is not None:
        return Trial(number, cell.values, "done", cell.value, run.run_id)
    entry = pruned.get(run.run_id)
    if entry is not None and run.state == "cancelled" and entry.submission == run.submission:
        return Trial(number, cell.values, "pruned", entry.value, run.run_id, entry.why, entry.step)
    why = f"it ended without {metric}" if run.state == "succeeded" else run.message or run.reason or run.state
    return Trial(number, cell.values, "failed", run_id=run.run_id, why=sanitize_line(why, 200))


@dataclass(frozen=True, slots=True)
class SearchStanding:
    """A search as it stands.

    Attributes:
        trials: How many there may be.
        ended: Those that have ended.
        failed: Those of them without a value.
        pruned: Those of them that were stopped because they did badly.
        metric: What they are compared by.
        best: Its best value.
        note: Why the newest round failed; empty if it did not.
        without_value: Trials that succeeded without the metric.
    """

    trials: int
    ended: int
    failed: int
    pruned: int
    metric: str
    best: float | None
    note: str
    without_value: Sequence[Trial]

    @property
    def words(self) -> str:
        """`12 of 30 trials, 2 failed; best loss 0.38`."""
        words = f"{self.ended} of {counted(self.trials, 'trial')}"
        words += f", {self.failed} failed" if self.failed else ""
        words += f", {self.pruned} pruned" if self.pruned else ""
        return f"{words}; best {sanitize_line(self.metric, 60)} {self.best:.6g}" if self.best is not None else words

    def as_json(self) -> dict[str, Any]:
        """What `--json` prints."""
        return {
            "trials": self.trials,
            "ended": self.ended,
            "failed": self.failed,
            "pruned": self.pruned,
            "best": self.best,
            "note": self.note or None,
        }


def search_standing(database: Database, record: SweepRecord, now: float | None = None) -> SearchStanding | None:
    """Sum up a search; None if the sweep is none.

    Args:
        database: The store.
        record: The sweep.
        now: Unix time.
    """
    search = search_of(record)
    if search is None:
        return None
    settings = settings_of(record)
    cells = cells_of(database, record.name, settings.metric, settings.decided_goal)
    at = time.time() if now is None else now
    trials = [_trial(cell, settings.metric or "", at, _pruned(record)) for cell in cells]
    succeeded = {cell.run.run_id for cell in cells if cell.run.state == "succeeded"}
    failed = [trial for trial in trials if trial.state == "failed"]
    best = next(iter(ranked(cells, settings.decided_goal)), None)
    return SearchStanding(
        trials=search.cells.trials,
        ended=sum(trial.state != "pending" for trial in trials),
        failed=len(failed),
        pruned=sum(trial.state == "pruned" for trial in trials),
        metric=settings.metric or "",
        best=best.value if best is not None else None,
        note=search.note,
        without_value=[trial for trial in failed if trial.run_id in succeeded],
    )
