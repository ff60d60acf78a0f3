"""Values that have a meaning beyond their SQL type: run ids, states, JSON. SQLite does not notice when a disk changes them.

Readers raise `ValueDamaged`, which is handled like any other damage of the store: `armada recover` rebuilds it.
"""

from __future__ import annotations

import json
import sqlite3
from typing import TYPE_CHECKING, Any, TypeVar

from armada.paths import RUN_ID
from armada.verdicts.states import STATES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Kind = TypeVar("Kind")

_COLUMNS: dict[str, dict[str, type[dict[str, Any]] | type[list[Any]]]] = {
    "runs": {"spec": dict, "gpus": list, "tags": list},
    "hosts": {"facts": dict, "forecast": dict, "stopping": dict},
    "operations": {"argv": list},
    "events": {"data": dict},
    "sweeps": {"settings": dict},
}
"""Which columns of which tables are JSON, and what it is of. NULL is no damage."""

_EMPTY: dict[str, dict[str, str | None]] = {
    "runs": {"gpus": "[]", "tags": "[]"},
    "hosts": {"facts": None, "forecast": None, "stopping": None},
    "operations": {"argv": "[]"},
    "sweeps": {"settings": "{}"},
}
"""What a row has instead of a damaged value, where the rest of the row is worth more. A run's plan is read again elsewhere."""

OF_RUNS = ("transitions", "events", "series", "left_out", "checkpoints", "run_sync")
"""The tables whose rows belong to a run each."""


class ValueDamaged(sqlite3.DatabaseError):
    """A value in the store is none that armada writes."""

    sqlite_errorcode = sqlite3.SQLITE_CORRUPT


def decode(kind: type[Kind], stored: str, what: str) -> Kind:
    """Return an object or an array that is stored as JSON.

    Args:
        kind: `dict` or `list`.
        stored: The text.
        what: Its column and row, for the error: "the column gpus of tuna-k3d9".

    Raises:
        ValueDamaged: It is not JSON, or of something else.
    """
    try:
        found = json.loads(stored)
    except (TypeError, ValueError, RecursionError):
        raise ValueDamaged(f"{what} is not JSON") from None
    if not isinstance(found, kind):
        raise ValueDamaged(f"{what} is JSON of another kind")
    return found


def check(table: str, row: Mapping[str, Any]) -> None:
    """Check whether readers of the store can use a row.

    Raises:
        ValueDamaged: Its run id, its state or a column of JSON is none.
    """
    run_id = row.get("run_id")
    if run_id is not None and not RUN_ID.fullmatch(str(run_id)):
        raise ValueDamaged(f"{run_id!r} in {table} is not a run id")
    if table == "runs" and row.get("state") not in STATES:
        raise ValueDamaged(f"{row.get('state')!r} is not a state of {run_id}")
    for name in _COLUMNS.get(table, ()):
        _check_json(table, row, name)


def _check_json(table: str, row: Mapping[str, Any], name: str) -> None:
    if row.get(name) is not None:
        decode(
            _COLUMNS[table][name],
            row[name],
            f"the column {name} of {row.get('run_id') or row.get('name') or row.get('id')}",
        )


def without_damage(table: str, row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row without the damaged values that it can do without.

    Raises:
        ValueDamaged: Another value is damaged.
    """
    mended = dict(row)
    for name, empty in _EMPTY.get(table, {}).items():
        try:
            _check_json(table, row, name)
        except ValueDamaged:
            mended[name] = empty
    check(table, mended)
    return mended


def damage(connection: sqlite3.Connection) -> Iterator[str]:
    """Find values that readers of the store cannot use, in a file that SQLite finds in order."""
    connection.row_factory = sqlite3.Row
    for table in dict.fromkeys((*_COLUMNS, *OF_RUNS)):
        for row in connection.execute(f"SELECT * FROM {table}"):  # noqa: S608  # names of our own schema
            try:
                check(table, dict(row))
            except ValueDamaged as error:
                yield str(error)
