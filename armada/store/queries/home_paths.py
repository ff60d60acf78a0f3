"""Where the checkpoints of runs lie at home, by the store's records."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from armada.store import places

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from armada.store.database import Database


def verified_paths(database: Database, run_ids: Iterable[str]) -> Iterator[tuple[str, Path | None]]:
    """Yield run id and folder of every verified checkpoint at home that has no damage; None for a folder of another home."""
    rows = database.connection.execute(
        "SELECT run_id, home_path FROM checkpoints WHERE run_id IN (SELECT value FROM json_each(?))"
        " AND home_path IS NOT NULL AND trouble IS NULL",
        (json.dumps(list(run_ids)),),
    )
    for row in rows:
        yield row["run_id"], places.read(database, row["home_path"])
