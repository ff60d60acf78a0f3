"""Copy the rows that SQLite can still read from a damaged store into a new one.

A damaged page ends a scan. The same table is then read from its other end, which recovers everything before the first
and after the last damaged page. Rows that cache a host's answers are kept in case the host is gone, and reset so that
the host's next answer replaces them.
"""

from __future__ import annotations

import contextlib
import sqlite3
from typing import TYPE_CHECKING, Any

from armada.store.database import MIGRATIONS, UNREADABLE
from armada.store.values import OF_RUNS, ValueDamaged, without_damage

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


def salvage(source: Path, target: Database) -> dict[str, int]:
    """Fill a new store with the readable rows of a damaged one.

    Args:
        source: A copy of the damaged file (its -wal beside it), because SQLite writes while it opens a store.
        target: A new store.

    Returns:
        The number of recovered rows by table; empty if not even the list of tables can be read.
    """
    with contextlib.suppress(*UNREADABLE):
        _restore_schema(source, target)
    connection = _open(source)
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


def _open(source: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(source, isolation_level=None)
    connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
    # SQLite then leaves out the tables whose definition cannot be read, instead of refusing all.
    connection.execute("PRAGMA writable_schema = ON")
    return connection


def _restore_schema(source: Path, target: Database) -> None:
    """Give the tables of a damaged store of this version their definitions again: their rows may all be in order."""
    with contextlib.closing(_open(source)) as connection:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version != len(MIGRATIONS):
            return
        for name, sql in target.connection.execute(
            "SELECT name, sql FROM sqlite_master WHERE type = 'table'"
        ).fetchall():
            connection.execute("UPDATE sqlite_master SET sql = ? WHERE name = ? AND sql IS NOT ?", (sql, name, sql))


def _shared_columns(source: sqlite3.Connection, target: Database, table: str) -> list[str]:
    try:
        there = {str(row[1]) for row in source.execute(f"PRAGMA table_info({table})")}
    except UNREADABLE:
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
            try:
                kept = without_damage(table, dict(zip(columns, row, strict=True)))
                count += connection.execute(insert, tuple(kept.values())).rowcount
            except (sqlite3.IntegrityError, sqlite3.DataError, ValueDamaged):
                continue  # a value that is wrong or missing is damage, not a record
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


def forget_orphans(target: Database) -> None:
    """Delete rows whose run does not exist."""
    with target.transaction() as connection:
        for table in OF_RUNS:
            connection.execute(f"DELETE FROM {table} WHERE run_id NOT IN (SELECT run_id FROM runs)")  # noqa: S608  # our own names
        connection.execute("DELETE FROM points WHERE series NOT IN (SELECT id FROM series)")


def _let_hosts_win(target: Database) -> None:
    """Reset sequence numbers and verification. A damaged number must not outrank a host's next answer; files are verified again."""
    with target.transaction() as connection:
        connection.execute("UPDATE runs SET attempt = 0, seq = 0, metrics_offset = 0, events_offset = 0")
        connection.execute("UPDATE checkpoints SET home_path = NULL, verified_at = NULL")
