"""Check the store's file without changing it: nothing is migrated, repaired or written."""

from __future__ import annotations

import re
import sqlite3
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Literal

from armada.errors import StoreDamaged
from armada.store.database import MIGRATIONS, UNREADABLE, explain
from armada.store.values import damage

if TYPE_CHECKING:
    from pathlib import Path

    from armada.errors import ArmadaError
    from armada.store.database import Database

Condition = Literal["missing", "sound", "old", "newer", "damaged", "unusable"]

_MOST_PROBLEMS = 100


@dataclass(frozen=True, slots=True)
class StoreFile:
    """The state of the store's file.

    `old`: undamaged; the next command migrates it. `unusable`: the disk or another program prevents reading; `obstacle`
    says how. `orphans` counts, by table, the rows whose run no longer exists.
    """

    path: Path
    condition: Condition
    version: int | None = None
    size_bytes: int = 0
    problems: tuple[str, ...] = ()
    orphans: dict[str, int] | None = None
    obstacle: ArmadaError | None = None


def examine(path: Path) -> StoreFile:
    """Read the whole store, as SQLite's integrity_check does, and compare its schema with this armada's."""
    if not path.exists():
        return StoreFile(path, "missing")
    size_bytes = sum(part.stat().st_size for part in (path, path.with_name(f"{path.name}-wal")) if part.exists())
    version: int | None = None
    try:
        connection = sqlite3.connect(path, isolation_level=None, timeout=5.0)
    except sqlite3.Error as error:
        return StoreFile(path, "unusable", size_bytes=size_bytes, problems=(str(error),), obstacle=explain(error, path))
    try:
        version = int(connection.execute("PRAGMA user_version").fetchone()[0])
        if version > len(MIGRATIONS):
            return StoreFile(path, "newer", version, size_bytes)
        found = [str(row[0]) for row in connection.execute(f"PRAGMA integrity_check({_MOST_PROBLEMS})")]
        problems = [] if found == ["ok"] else found
        tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if version == len(MIGRATIONS):
            problems += [f"the table {name} is missing" for name in sorted(expected_tables() - tables)]
        elif version == 0 and tables:
            problems.append(f"it has the tables of another program: {', '.join(sorted(tables)[:5])}")
        if not problems and version == len(MIGRATIONS):
            problems += islice(damage(connection), _MOST_PROBLEMS)
        orphans: dict[str, int] = {}
        if not problems:
            for row in connection.execute("PRAGMA foreign_key_check"):
                orphans[row[0]] = orphans.get(row[0], 0) + 1
    except UNREADABLE as error:
        explained = explain(error, path)
        damaged = explained is None or isinstance(explained, StoreDamaged)
        return StoreFile(
            path,
            "damaged" if damaged else "unusable",
            version,
            size_bytes,
            (str(error),),
            obstacle=None if damaged else explained,
        )
    finally:
        connection.close()
    condition: Condition = "damaged" if problems else "sound" if version == len(MIGRATIONS) else "old"
    return StoreFile(path, condition, version, size_bytes, tuple(problems), orphans)


def quick_check(database: Database) -> tuple[str, int]:
    """Return the result of SQLite's quick_check (`ok` or the first problem) and the number of runs."""
    said = str(database.connection.execute("PRAGMA quick_check(1)").fetchone()[0])
    return said, int(database.connection.execute("SELECT count(*) FROM runs").fetchone()[0])


def expected_tables() -> set[str]:
    """Return the tables that a store of this armada has."""
    return {name for script in MIGRATIONS for name in re.findall(r"CREATE TABLE (\w+)", script)}
