"""Checkpoints that are at home by the store's records, and whose folders are not seen there."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from armada.store.checkpoints import Checkpoint
    from armada.store.database import Database
    from armada.store.runs import Run


def count_missing(database: Database, listed: Iterable[Run]) -> Counter[str]:
    """Count the verified checkpoints of each run whose folder is not seen at home; one stat each."""
    kept = [run.run_id for run in listed if run.checkpoints_home]
    if not kept:
        return Counter()
    from armada.store.queries.home_paths import verified_paths
    from armada.sync.checkpoints.folders import is_seen

    return Counter(run_id for run_id, path in verified_paths(database, kept) if path is None or not is_seen(path))


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
