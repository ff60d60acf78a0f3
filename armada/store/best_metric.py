"""What a run's best checkpoint is the best by, as its experiment said."""

from __future__ import annotations

from typing import TYPE_CHECKING

from armada.foundation.metric_goals import BestBy
from armada.protocol.recorded import recorded_spec
from armada.store import runs

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from armada.store.database import Database


def stated_best(spec: Mapping[str, Any]) -> BestBy | None:
    """Return `train.best_metric` of a plan; None if it does not say so."""
    training = recorded_spec(spec).training
    best = training.train.best_metric if training is not None and training.train is not None else None
    if best is None or best.name is None or best.goal is None:
        return None
    return BestBy(best.name, best.goal)


def best_by(database: Database, run_id: str) -> BestBy:
    """Return what tells a run's best checkpoint: the evaluation loss unless it says otherwise."""
    return stated_best(runs.spec(database, run_id)) or BestBy()


def common_best(database: Database, run_ids: Iterable[str]) -> BestBy | None:
    """Return what several runs all say of their best; None if they say nothing, or do not agree."""
    found = {stated_best(runs.spec(database, run_id)) for run_id in run_ids}
    return found.pop() if len(found) == 1 else None
