"""The list of runs for repeated reading: returns only what changed since the previous call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from armada.store import runs
from armada.store.runs import DERIVED, LOSS_NOT_FINITE, Run
from armada.verdicts.states import ENDED

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection

    from armada.store.database import Database

Values = tuple[Any, ...]
"""A run's row as stored, cheap to compare with the previous one; `as_run` converts it to a `Run`."""

_FIELDS = [name for name in Run._fields if name not in DERIVED]
_COLUMNS = ", ".join([*(f'r."{name}"' for name in _FIELDS), LOSS_NOT_FINITE])
_RUN_ID = _FIELDS.index("run_id")
_MOST_PARAMETERS = 500
"""SQLite limits the number of `?` in a statement."""
_HAS_ENDED = f"state IN ({', '.join(repr(state) for state in sorted(ENDED))})"
_MOMENT = "coalesce(ended_at, created_at)"
# Both conditions on states read the index alone, not the rows with their long specs: 2 ms instead of 10 with 10,000 runs.
_ACTIVE = f"SELECT run_id FROM runs INDEXED BY runs_by_host WHERE NOT {_HAS_ENDED}"  # noqa: S608  # constants
_FAILED = f"SELECT run_id FROM runs INDEXED BY runs_by_host WHERE state = 'failed' AND {_MOMENT} > ?"  # noqa: S608  # constants
_NO_NUMBER = f"""SELECT run_id FROM runs INDEXED BY runs_by_time WHERE created_at > ? AND state = 'succeeded' AND {_MOMENT} > ?
    AND loss IS NULL AND EXISTS (SELECT 1 FROM series WHERE series.run_id = runs.run_id AND name = 'loss')"""  # noqa: S608  # constants
_LONGEST_S = 7 * 86_400.0
"""Runs that took longer are not looked through for a loss that is no number: the rows of all runs take 20 ms."""
_FAILING = "SELECT run_id FROM run_sync WHERE failing_since IS NOT NULL"
_LAST = f"SELECT run_id FROM runs WHERE {_HAS_ENDED} AND archived_at IS NULL ORDER BY {_MOMENT} DESC LIMIT ?"  # noqa: S608


def revision(database: Database) -> tuple[int, int]:
    """Return the number of the newest change of any run, and how many runs were deleted so far."""
    number, deletions = database.connection.execute("SELECT number, deletions FROM revision").fetchone()
    return number, deletions


def changed_since(database: Database, number: int) -> dict[str, Values]:
    """Return the rows of runs that changed after revision `number`, by run id; -1 returns all."""
    query = f"SELECT {_COLUMNS} FROM runs r WHERE r.revision > ?"  # noqa: S608  # column names are the class's own
    rows = database.connection.execute(query, (number,))
    return {row[_RUN_ID]: tuple(row) for row in rows}


def first_ids(
    database: Database, *, last: int, failed_since: float, most: int, pinned: Collection[str] = ()
) -> tuple[set[str], int] | None:
    """Find the runs that a list by urgency begins with, without reading the others.

    They are all runs that have not ended, that failed lately, that succeeded lately with a loss that is no number, or
    whose syncs fail; the last ones that ended; and all other runs of their sweeps, which share their rows.

    Args:
        database: The store.
        last: How many runs that ended last.
        failed_since: Of runs that failed, or whose loss is no number, those that ended after this time, unix seconds.
        most: Give up if there are more.
        pinned: Ids of runs that are there too, if they exist.

    Returns:
        Their ids, and how many runs there are in all; None if they are too many.
    """
    found, since = set(pinned), (failed_since - _LONGEST_S, failed_since)
    for query, values in (
        (_ACTIVE, ()),
        (_FAILED, (failed_since,)),
        (_NO_NUMBER, since),
        (_FAILING, ()),
        (_LAST, (last,)),
    ):
        found.update(
            row[0] for row in database.connection.execute(f"{query} LIMIT {most}" if query != _LAST else query, values)
        )
        if len(found) >= most:
            return None
    rows = _of_ids(database, "SELECT DISTINCT sweep FROM runs", found, after=" AND sweep IS NOT NULL")
    for (sweep,) in rows:
        found.update(row[0] for row in database.connection.execute("SELECT run_id FROM runs WHERE sweep = ?", (sweep,)))
        if len(found) >= most:
            return None
    return found, int(database.connection.execute("SELECT count(*) FROM runs").fetchone()[0])


def of_ids(database: Database, run_ids: set[str]) -> dict[str, Values]:
    """Return the rows of these runs, by run id."""
    rows = _of_ids(database, f"SELECT {_COLUMNS} FROM runs r", run_ids, after="")  # noqa: S608  # the class's own
    return {row[_RUN_ID]: tuple(row) for row in rows}


def as_run(values: Values) -> Run:
    """Convert a row to a `Run`, without the values counted from other tables."""
    *fields, loss_not_finite = values
    run = runs.as_run(fields)
    return run if loss_not_finite is None else run._replace(loss_not_finite=loss_not_finite)


def count_checkpoints(
    database: Database, run_ids: set[str] | None
) -> dict[str, tuple[int | None, float | None, int, int, int]]:
    """Count the checkpoints of the given runs that have any, or of all runs.

    Returns:
        By run id: the newest step at home, when it arrived, how many are at home, how many are only on the host, and
        how many are
        damaged at home.
    """
    query = """SELECT run_id, max(CASE WHEN verified_at IS NOT NULL AND trouble IS NULL THEN step END),
                      max(CASE WHEN trouble IS NULL THEN verified_at END),
                      count(CASE WHEN trouble IS NULL THEN verified_at END),
                      sum(on_host AND (verified_at IS NULL OR trouble IS NOT NULL)),
                      count(CASE WHEN trouble IS NOT NULL THEN verified_at END) FROM checkpoints"""
    rows = _of_ids(database, query, run_ids, after=" GROUP BY run_id")
    return {row[0]: (row[1], row[2], row[3], row[4], row[5]) for row in rows}


def damaged_at_home(database: Database) -> dict[str, int]:
    """Count the checkpoints that are damaged at home, by run id; runs without any are left out."""
    query = """SELECT run_id, count(*) FROM checkpoints WHERE verified_at IS NOT NULL AND trouble IS NOT NULL
               GROUP BY run_id"""
    return dict(database.connection.execute(query).fetchall())


def _of_ids(database: Database, query: str, run_ids: set[str] | None, *, after: str) -> list[sqlite3.Row]:
    if run_ids is None:
        return database.connection.execute(query + after).fetchall()
    found: list[sqlite3.Row] = []
    wanted = sorted(run_ids)
    for start in range(0, len(wanted), _MOST_PARAMETERS):
        some = wanted[start : start + _MOST_PARAMETERS]
        where = f" WHERE run_id IN ({', '.join('?' * len(some))})"
        found += database.connection.execute(query + where + after, some).fetchall()
    return found
