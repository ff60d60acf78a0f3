"""Checkpoints that are at home by the store's records, and whose folders are not seen there."""

from __future__ import annotations

import threading
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from armada.store.checkpoints import Checkpoint
    from armada.store.database import Database
    from armada.store.runs import Run


_PATIENCE_S = 1.0
"""For how long a list of runs waits for the disk of the checkpoints, in seconds: a network disk may never answer."""


def count_missing(database: Database, listed: Iterable[Run]) -> Counter[str]:
    """Count the verified checkpoints of each run whose folder is not seen at home; none if the disk takes too long to say."""
    kept = [run.run_id for run in listed if run.checkpoints_home]
    if not kept:
        return Counter()
    from armada.store.queries.home_paths import verified_paths
    from armada.sync.checkpoints.folders import is_seen

    recorded = list(verified_paths(database, kept))
    told: list[Counter[str]] = []

    def ask() -> None:
        told.append(Counter(run_id for run_id, path in recorded if path is None or not is_seen(path)))

    thread = threading.Thread(target=ask, daemon=True)  # nothing interrupts a stat on such a disk
    thread.start()
    thread.join(_PATIENCE_S)
    return told[0] if told else Counter()


def describe_missing(database: Database, run: Run, known: Sequence[Checkpoint]) -> dict[str, str]:
    """Say of each checkpoint whose folder is not seen at home what became of it, by its digest."""
    from armada.sync.checkpoints.folders import find_deleted, is_seen

    deleted = {each.digest for each in find_deleted(database, known)}
    told = {}
    for each in known:
        if each.home_path is None or is_seen(each.home_path):
            continue
        if each.digest not in deleted:
            told[each.digest] = f"not seen here, a disk may not be mounted: {each.home_path}"
        elif each.on_host:
            told[each.digest] = f"deleted here: armada pull {run.run_id} --checkpoint {each.step} fetches it again"
        else:
            told[each.digest] = f"deleted here, and gone from {run.host}"
    return told
