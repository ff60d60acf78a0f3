"""Copy the rows that SQLite can still read from a damaged store into a new one.

A damaged page ends a scan. The same table is then read from its other end, which recovers everything before the first
and after the last damaged page. Rows that cache a host's answers are kept in case the host is gone, and reset so that
the host's next answer replaces them.
"""

from __future__ import annotations

import json
import sqlite3
from typing import TYPE_CHECKING, Any

from armada.paths import RUN_ID
from armada.verdicts.states import STATES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from armada.store.database import Database

# Ordered so that a table comes after those it refers to. `files_home` and `transfers` are rebuilt from the files at
# home, `left_out` from what hosts answer.
_TABLES = (
    *("runs", "hosts", "transitions", "events", "series", "points", "checkpoints", "run_sync", "telemetry"),
    *("operations", "notifications", "sweeps"),
)
_OF_RUNS = ("transitions", "events", "series", "left_out", "checkpoints", "run_sync")
_JSON = {
    "runs": ("spec", "gpus", "tags"),
    "hosts": ("facts", "forecast", "stopping"),
    "operations": ("argv",),
    "events": ("data",),
    "sweeps": ("settings",),
}


def salvage(source: Path, target: Database) -> dict[str, int]:
    """Fill a new store with the readable rows of a damaged one.

    Args:
        source: A copy of the damaged file (its -wal beside it), because SQLite writes while it opens a store.
        target: A new store.

    Returns:
        The number of recovered rows by table; empty if not even the list of tables can be read.
    """
    connection = sqlite3.connect(source, isolation_level=None)
    connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
    counts: dict[str, int] = {}
    try:
        for table in _TABLES:
            columns = _shared_columns(connection, target, table)
            if columns:
                counts[table] = _carry(connection, target, table, columns)
    finally:
        connection.close()
    forget_orphans(target)
    _let_hosts_win(target)
    return {table: count for table, count in counts.items() if count}


def _shared_columns(source: sqlite3.Connection, target: Database, table: str) -> list[str]:
    try:
        there = {str(row[1]) for row in source.execute(f"PRAGMA table_info({table})")}
    except sqlite3.DatabaseError:
        return []
    rows = target.connection.execute(f"PRAGMA table_info({table})")
    return [name for row in rows if (name := str(row[1])) in there and name != "revision"]


def _carry(source: sqlite3.Connection, target: Database, table: str, columns: list[str]) -> int:
    marks, names = (
        ", ".join("?" * len(columns)),
        ", ".join(f'"{name}"' for name in columns),
    )  # `group` is SQL's own word
    insert = f"INSERT OR IGNORE INTO {table} ({names}) VALUES ({marks})"  # noqa: S608  # names of our own schema
    count = 0
    with target.transaction() as connection:
        rows = _readable(source, table, names, _key(target, table))
        # Only their order identifies transitions: read from both ends, they would appear twice and reversed.
        for row in _in_order(rows, columns) if table == "transitions" else rows:
            if not _is_sane(table, dict(zip(columns, row, strict=True))):
                continue
            try:
                count += connection.execute(insert, row).rowcount
            except (sqlite3.IntegrityError, sqlite3.DataError):
                continue  # a value of the wrong type or a missing one is damage, not a record
    return count


def _in_order(rows: Iterator[tuple[Any, ...]], columns: list[str]) -> list[tuple[Any, ...]]:
    place = columns.index("time")
    whole = [row for row in dict.fromkeys(rows) if isinstance(row[place], float)]
    return sorted(whole, key=lambda row: float(row[place]))


def _readable(source: sqlite3.Connection, table: str, names: str, key: str) -> Iterator[tuple[Any, ...]]:
    query = f"SELECT {names} FROM {table} NOT INDEXED"  # noqa: S608  # names of our own schema
    try:
        yield from source.execute(query)
    except sqlite3.DatabaseError:
        backwards = ", ".join(f"{name} DESC" for name in key.split(", "))
        try:
            yield from source.execute(f"{query} ORDER BY {backwards}")
        except sqlite3.DatabaseError:
            return


def _key(target: Database, table: str) -> str:
    """Return the columns a table is stored in the order of, so that reading it backwards needs no sort of unreadable rows."""
    (sql,) = target.connection.execute("SELECT sql FROM sqlite_master WHERE name = ?", (table,)).fetchone()
    if "WITHOUT ROWID" not in sql:
        return "rowid"
    rows = target.connection.execute(f"PRAGMA table_info({table})").fetchall()
    return ", ".join(str(row["name"]) for row in sorted(rows, key=lambda row: row["pk"]) if row["pk"])


def _is_sane(table: str, row: dict[str, Any]) -> bool:
    """Whether readers of the store can handle the row: valid run id, state and JSON."""
    if "run_id" in row and row["run_id"] is not None and not RUN_ID.fullmatch(str(row["run_id"])):
        return False
    if table == "runs" and row.get("state") not in STATES:
        return False
    for name in _JSON.get(table, ()):
        if row.get(name) is None:
            continue
        try:
            value = json.loads(row[name])
        except (TypeError, ValueError, RecursionError):
            return False
        if not isinstance(value, list if name in {"gpus", "tags", "argv"} else dict):
            return False
    return True


def forget_orphans(target: Database) -> None:
    """Delete rows whose run does not exist."""
    with target.transaction() as connection:
        for table in _OF_RUNS:
            connection.execute(f"DELETE FROM {table} WHERE run_id NOT IN (SELECT run_id FROM runs)")  # noqa: S608  # our own names
        connection.execute("DELETE FROM points WHERE series NOT IN (SELECT id FROM series)")


def _let_hosts_win(target: Database) -> None:
    """Reset sequence numbers and verification. A damaged number must not outrank a host's next answer; files are verified again."""
    with target.transaction() as connection:
        connection.execute("UPDATE runs SET attempt = 0, seq = 0, metrics_offset = 0, events_offset = 0")
        connection.execute("UPDATE checkpoints SET home_path = NULL, verified_at = NULL")
