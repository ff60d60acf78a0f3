"""Which home launched a run: of many runs at once, without the rest of their plans."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from armada.store.values import decode

if TYPE_CHECKING:
    from collections.abc import Collection

    from armada.store.database import Database


def launching_homes(database: Database, run_ids: Collection[str]) -> dict[str, dict[str, Any]]:
    """Return what the plans of some runs say of the home that launched them, by run id; runs without it are left out.

    Raises:
        ValueDamaged: A value is none that armada writes.
    """
    query = """SELECT run_id, json_extract(spec, '$.home') AS home FROM runs
               WHERE run_id IN (SELECT value FROM json_each(?))
               AND CASE WHEN json_valid(spec) THEN json_type(spec, '$.home') = 'object' END"""
    rows = database.connection.execute(query, (json.dumps([*run_ids]),))
    return {row["run_id"]: decode(dict, row["home"], f"the home of {row['run_id']}") for row in rows}
